"""A PDF, looked through before a parser opens it: streams inflated and counted, nesting and pages checked."""

import re
import zlib
from collections.abc import Iterator
from itertools import islice

from inturn.extract.limits import ExtractLimits, UnpackBudget
from inturn.extract.zip_checks import inflate
from inturn.processor import Reject

MAX_STREAMS = 200_000
MAX_FILTERS = 4
MAX_DICTIONARY_BYTES = 2048
MAX_PAGE_NODES = 10_000
NODE_WINDOW_BYTES = 20_000
# Every pattern begins with fixed bytes: that is what makes them fast on megabytes of packed data.
STREAM = re.compile(rb"stream\r?\n")
FLATE = re.compile(rb"/(?:FlateDecode|Fl)\b")
PAGE_TREE_NODE = re.compile(rb"/Type\s*/Pages\b")
COUNT = re.compile(rb"/Count\s+(\d{1,10})")
PAGE = re.compile(rb"/Type\s*/Page\b")
DEEP_LIST = re.compile(rb"\[\s*(?:\[\s*){99}")
DEEP_DICTIONARY = re.compile(rb"<<\s*/[^\s<>/\[]{1,40}\s*(?:<<\s*/[^\s<>/\[]{1,40}\s*){99}")
IMAGE = re.compile(rb"/Subtype\s*/Image\b")
WIDTH, HEIGHT = re.compile(rb"/Width\s+(\d{1,10})"), re.compile(rb"/Height\s+(\d{1,10})")


def check_pdf(data: bytes, limits: ExtractLimits) -> None:
    """Reject a PDF that is beyond bounds, or whose end is missing."""
    if b"startxref" not in data[-4096:] and b"%%EOF" not in data[-4096:]:
        raise Reject("This PDF is cut off: its end is missing")
    budget = UnpackBudget(limits, len(data))
    pages = 0
    for text in (data, *_object_streams(data, budget)):
        if DEEP_LIST.search(text) or DEEP_DICTIONARY.search(text):
            raise Reject("Objects in this PDF lie more than 100 deep inside each other")
        pages = max(pages, _page_count(text))
    if pages > limits.pages:
        raise Reject(f"This PDF says that it has {pages:,} pages; the limit is {limits.pages:,}")


def pdf_page_count(data: bytes, max_bytes: int) -> int | None:
    """Pages by what the PDF says, opening at most so many bytes of it; None if it does not say."""
    budget = UnpackBudget(ExtractLimits(unpacked_bytes=max_bytes, ratio=10_000), len(data))
    result = _page_count(data)
    try:
        for text in _object_streams(data, budget):
            result = max(result, _page_count(text))
    except Reject:
        pass  # what was found until then
    return result or None


def _page_count(text: bytes) -> int:
    """The largest count that a node of the page tree claims, otherwise the pages themselves."""
    claimed = [_declared_count(text, node) for node in islice(PAGE_TREE_NODE.finditer(text), MAX_PAGE_NODES)]
    return max(claimed, default=0) or sum(1 for _ in PAGE.finditer(text))


def _declared_count(text: bytes, node: re.Match[bytes]) -> int:
    """The count in the same dictionary, behind its type or before it."""
    behind = text[node.end() : node.end() + NODE_WINDOW_BYTES].partition(b"endobj")[0].partition(b"/Type")[0]
    before = text[max(0, node.start() - NODE_WINDOW_BYTES) : node.start()].rpartition(b"obj")[2]
    match = COUNT.search(behind) or COUNT.search(before)
    return int(match.group(1)) if match else 0


def _object_streams(data: bytes, budget: UnpackBudget) -> Iterator[bytes]:
    """Inflate every stream and count; hand out the ones that hold objects."""
    for number, match in enumerate(STREAM.finditer(data)):
        if number > MAX_STREAMS:
            raise Reject(f"This PDF holds more than {MAX_STREAMS:,} streams, which is the limit")
        if data.endswith(b"end", 0, match.start()):
            continue
        before = data[max(0, match.start() - MAX_DICTIONARY_BYTES) : match.start()]
        about = before[before.rfind(b" obj") + 1 :]
        _check_image(about, budget.limits)
        filters = len(FLATE.findall(about))
        if filters > MAX_FILTERS:
            raise Reject("A stream in this PDF is packed again and again: it looks like a bomb")
        # A picture may shrink a thousandfold in good faith, and nobody opens it here: its measures were checked.
        if filters == 0 or IMAGE.search(about):
            continue
        end = data.find(b"endstream", match.end())
        packed = memoryview(data)[match.end() : end if end > 0 else len(data)]
        objects = b"/ObjStm" in about
        pieces = _inflate_stream(packed, filters, budget)
        opened = b"".join(pieces) if objects else b""
        if objects:
            yield opened
        else:
            for _ in pieces:
                pass


def _inflate_stream(packed: memoryview, filters: int, budget: UnpackBudget) -> Iterator[bytes]:
    pieces: Iterator[bytes] = inflate(packed, 15)
    for _ in range(filters - 1):
        pieces = _inflate_again(pieces, budget)
    try:
        for piece in pieces:
            error = budget.spend(len(piece))
            if error:
                raise Reject(error.replace("zip bomb", "bomb"))
            yield piece
    except zlib.error:
        return  # broken streams are the parser's business; what counts is that they end


def _inflate_again(chunks: Iterator[bytes], budget: UnpackBudget) -> Iterator[bytes]:
    """Inflate what was inflated."""
    stream = zlib.decompressobj()
    for packed in chunks:
        error = budget.spend(len(packed))
        if error:
            raise Reject(error.replace("zip bomb", "bomb"))
        piece = stream.decompress(packed, 1 << 16)
        while piece:
            yield piece
            piece = stream.decompress(stream.unconsumed_tail, 1 << 16)


def _check_image(dictionary: bytes, limits: ExtractLimits) -> None:
    width, height = WIDTH.search(dictionary), HEIGHT.search(dictionary)
    if width and height and int(width.group(1)) * int(height.group(1)) > limits.pixels:
        raise Reject(
            f"A picture in this PDF is {int(width.group(1)):,} by {int(height.group(1)):,} pixels; "
            f"the limit is {limits.pixels / 1_000_000:.4g} million pixels"
        )
