"""Checks a PDF before a parser opens it: unpacked size of its streams, nesting, pages and pictures."""

import re
import zlib
from collections.abc import Iterator
from itertools import islice

from inturn.extract.limits import ExtractLimits, UnpackBudget
from inturn.extract.zip_checks import CHUNK_BYTES, inflate
from inturn.processor_api import Reject

MAX_STREAMS = 200_000
MAX_FILTERS = 4
MAX_DICTIONARY_BYTES = 2048
MAX_PAGE_NODES = 10_000
NODE_WINDOW_BYTES = 20_000
# Patterns begin with fixed bytes, which makes them fast on megabytes of packed data.
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
    """Reject a PDF that is beyond a limit, or whose end is missing."""
    if b"startxref" not in data[-4096:] and b"%%EOF" not in data[-4096:]:
        raise Reject("This PDF is cut off: its end is missing")
    budget = UnpackBudget(limits, len(data), "bomb")
    pages = 0
    for objects in (data, *_object_streams(data, budget)):
        if DEEP_LIST.search(objects) or DEEP_DICTIONARY.search(objects):
            raise Reject("Objects in this PDF lie more than 100 deep inside each other")
        pages = max(pages, _page_count(objects))
    if pages > limits.pages:
        raise Reject(f"This PDF declares {pages:,} pages; the limit is {limits.pages:,}")


def pdf_page_count(data: bytes, max_bytes: int) -> int | None:
    """Return the declared number of pages, unpacking at most `max_bytes`; None if the PDF declares none."""
    budget = UnpackBudget(ExtractLimits(unpacked_bytes=max_bytes, ratio=10_000), len(data))
    pages = _page_count(data)
    try:
        for objects in _object_streams(data, budget):
            pages = max(pages, _page_count(objects))
    except Reject:
        pass  # the count so far is the answer
    return pages or None


def _page_count(objects: bytes) -> int:
    """Return the largest count in a node of the page tree; without any, the number of pages."""
    declared = [_declared_count(objects, node) for node in islice(PAGE_TREE_NODE.finditer(objects), MAX_PAGE_NODES)]
    return max(declared, default=0) or sum(1 for _ in PAGE.finditer(objects))


def _declared_count(objects: bytes, node: re.Match[bytes]) -> int:
    """Return the count in the dictionary of a node, behind the type or before it."""
    behind = objects[node.end() : node.end() + NODE_WINDOW_BYTES].partition(b"endobj")[0].partition(b"/Type")[0]
    before = objects[max(0, node.start() - NODE_WINDOW_BYTES) : node.start()].rpartition(b"obj")[2]
    match = COUNT.search(behind) or COUNT.search(before)
    return int(match.group(1)) if match else 0


def _object_streams(data: bytes, budget: UnpackBudget) -> Iterator[bytes]:
    """Inflate and count all streams; yield those that contain objects."""
    for number, match in enumerate(STREAM.finditer(data)):
        if number > MAX_STREAMS:
            raise Reject(f"This PDF holds more than {MAX_STREAMS:,} streams, which is the limit")
        if data.endswith(b"end", 0, match.start()):
            continue
        before = data[max(0, match.start() - MAX_DICTIONARY_BYTES) : match.start()]
        dictionary = before[before.rfind(b" obj") + 1 :]
        _check_image(dictionary, budget.limits)
        filters = len(FLATE.findall(dictionary))
        if filters > MAX_FILTERS:
            raise Reject("A stream in this PDF is packed again and again: it looks like a bomb")
        # A picture may shrink a thousandfold; its width and height were checked instead.
        if filters == 0 or IMAGE.search(dictionary):
            continue
        end = data.find(b"endstream", match.end())
        packed = memoryview(data)[match.end() : end if end > 0 else len(data)]
        chunks = _inflate_stream(packed, filters, budget)
        if b"/ObjStm" in dictionary:
            yield b"".join(chunks)
        else:
            for _ in chunks:
                pass


def _inflate_stream(packed: memoryview, filters: int, budget: UnpackBudget) -> Iterator[bytes]:
    chunks: Iterator[bytes] = inflate(packed, 15)
    for _ in range(filters - 1):
        chunks = _inflate_again(chunks, budget)
    try:
        for chunk in chunks:
            budget.spend(len(chunk))
            yield chunk
    except zlib.error:
        return  # a damaged stream is left to the parser


def _inflate_again(chunks: Iterator[bytes], budget: UnpackBudget) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    for packed in chunks:
        budget.spend(len(packed))
        chunk = stream.decompress(packed, CHUNK_BYTES)
        while chunk:
            yield chunk
            chunk = stream.decompress(stream.unconsumed_tail, CHUNK_BYTES)


def _check_image(dictionary: bytes, limits: ExtractLimits) -> None:
    width, height = WIDTH.search(dictionary), HEIGHT.search(dictionary)
    if width and height and int(width.group(1)) * int(height.group(1)) > limits.pixels:
        raise Reject(
            f"A picture in this PDF is {int(width.group(1)):,} by {int(height.group(1)):,} pixels; "
            f"the limit is {limits.pixels / 1_000_000:.4g} million pixels"
        )
