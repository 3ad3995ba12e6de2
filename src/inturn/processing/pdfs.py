"""A PDF, looked through before a parser opens it: streams inflated and counted, nesting and pages checked."""

import re
import zlib
from collections.abc import Iterator
from itertools import islice

from inturn.processing.archives import inflate
from inturn.processing.bounds import Bounds, Budget
from inturn.processing.handler import Reject

MOST_STREAMS = 200_000
MOST_FILTERS = 4
DICTIONARY = 2048
MOST_NODES = 10_000
WINDOW = 20_000
# Every pattern begins with fixed bytes: that is what makes them fast on megabytes of packed data.
STREAM = re.compile(rb"stream\r?\n")
FLATE = re.compile(rb"/(?:FlateDecode|Fl)\b")
NODE = re.compile(rb"/Type\s*/Pages\b")
COUNT = re.compile(rb"/Count\s+(\d{1,10})")
PAGE = re.compile(rb"/Type\s*/Page\b")
DEEP_LIST = re.compile(rb"\[\s*(?:\[\s*){99}")
DEEP_DICTIONARY = re.compile(rb"<<\s*/[^\s<>/\[]{1,40}\s*(?:<<\s*/[^\s<>/\[]{1,40}\s*){99}")
IMAGE = re.compile(rb"/Subtype\s*/Image\b")
WIDTH, HEIGHT = re.compile(rb"/Width\s+(\d{1,10})"), re.compile(rb"/Height\s+(\d{1,10})")


def look_through(data: bytes, bounds: Bounds) -> None:
    """Reject a PDF that is beyond bounds, or whose end is missing."""
    if b"startxref" not in data[-4096:] and b"%%EOF" not in data[-4096:]:
        raise Reject("This PDF is cut off: its end is missing")
    budget = Budget(bounds, len(data))
    pages = 0
    for text in (data, *_inside(data, budget)):
        if DEEP_LIST.search(text) or DEEP_DICTIONARY.search(text):
            raise Reject("Objects in this PDF lie more than 100 deep inside each other")
        pages = max(pages, _pages(text))
    if pages > bounds.pages:
        raise Reject(f"This PDF says that it has {pages:,} pages; the limit is {bounds.pages:,}")


def count(data: bytes, most: int) -> int | None:
    """Pages by what the PDF says, opening at most so many bytes of it; None if it does not say."""
    budget = Budget(Bounds(expanded=most, ratio=10_000), len(data))
    found = _pages(data)
    try:
        for text in _inside(data, budget):
            found = max(found, _pages(text))
    except Reject:
        pass  # what was found until then
    return found or None


def _pages(text: bytes) -> int:
    """The largest count that a node of the page tree claims, otherwise the pages themselves."""
    claimed = [_claim(text, node) for node in islice(NODE.finditer(text), MOST_NODES)]
    return max(claimed, default=0) or sum(1 for _ in PAGE.finditer(text))


def _claim(text: bytes, node: re.Match[bytes]) -> int:
    """The count in the same dictionary, behind its type or before it."""
    behind = text[node.end() : node.end() + WINDOW].partition(b"endobj")[0].partition(b"/Type")[0]
    before = text[max(0, node.start() - WINDOW) : node.start()].rpartition(b"obj")[2]
    found = COUNT.search(behind) or COUNT.search(before)
    return int(found.group(1)) if found else 0


def _inside(data: bytes, budget: Budget) -> Iterator[bytes]:
    """Inflate every stream and count; hand out the ones that hold objects."""
    for number, found in enumerate(STREAM.finditer(data)):
        if number > MOST_STREAMS:
            raise Reject(f"This PDF holds more than {MOST_STREAMS:,} streams, which is the limit")
        if data.endswith(b"end", 0, found.start()):
            continue
        before = data[max(0, found.start() - DICTIONARY) : found.start()]
        about = before[before.rfind(b" obj") + 1 :]
        _check_picture(about, budget.bounds)
        filters = len(FLATE.findall(about))
        if filters > MOST_FILTERS:
            raise Reject("A stream in this PDF is packed again and again: it looks like a bomb")
        # A picture may shrink a thousandfold in good faith, and nobody opens it here: its measures were checked.
        if filters == 0 or IMAGE.search(about):
            continue
        end = data.find(b"endstream", found.end())
        packed = memoryview(data)[found.end() : end if end > 0 else len(data)]
        objects = b"/ObjStm" in about
        pieces = _opened(packed, filters, budget)
        opened = b"".join(pieces) if objects else b""
        if objects:
            yield opened
        else:
            for _ in pieces:
                pass


def _opened(packed: memoryview, filters: int, budget: Budget) -> Iterator[bytes]:
    pieces: Iterator[bytes] = inflate(packed, 15)
    for _ in range(filters - 1):
        pieces = _again(pieces, budget)
    try:
        for piece in pieces:
            wrong = budget.spend(len(piece))
            if wrong:
                raise Reject(wrong.replace("zip bomb", "bomb"))
            yield piece
    except zlib.error:
        return  # broken streams are the parser's business; what counts is that they end


def _again(pieces: Iterator[bytes], budget: Budget) -> Iterator[bytes]:
    """Inflate what was inflated."""
    stream = zlib.decompressobj()
    for packed in pieces:
        wrong = budget.spend(len(packed))
        if wrong:
            raise Reject(wrong.replace("zip bomb", "bomb"))
        piece = stream.decompress(packed, 1 << 16)
        while piece:
            yield piece
            piece = stream.decompress(stream.unconsumed_tail, 1 << 16)


def _check_picture(about: bytes, bounds: Bounds) -> None:
    width, height = WIDTH.search(about), HEIGHT.search(about)
    if width and height and int(width.group(1)) * int(height.group(1)) > bounds.pixels:
        raise Reject(
            f"A picture in this PDF is {int(width.group(1)):,} by {int(height.group(1)):,} pixels; "
            f"the limit is {bounds.pixels / 1_000_000:.4g} million pixels"
        )
