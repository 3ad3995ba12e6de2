"""Split a PDF into files of one page each.

It reads what this example makes: PDFs with a plain table of objects and pages that inherit nothing. For those of other
programs take a PDF library.
"""

import re
from typing import Final

import inturn
from demo.pdf import assemble

_OBJECT: Final = re.compile(rb"(\d+) 0 obj\n")
_REFERENCE: Final = re.compile(rb"(\d+) 0 R")
_TABLE: Final = re.compile(rb"startxref\n(\d+)\n%%EOF\s*$")
_PAGES_NUMBER: Final = 2
"""The object of the page tree in the files that are written."""
_FIRST_FREE_NUMBER: Final = 3


def split_pages(data: bytes) -> list[bytes]:
    """Return a PDF for each page, in order; `inturn.Reject` if the file cannot be read."""
    objects = _read_objects(data)
    pages = [number for number, body in objects.items() if re.search(rb"/Type /Page\b(?!s)", _head(body))]
    if not pages:
        raise inturn.Reject("this PDF has no pages that can be split")
    return [_write_page(objects, number) for number in _in_order(objects, pages)]


def _read_objects(data: bytes) -> dict[int, bytes]:
    """Return the objects by number, found by the table at the end of the file."""
    table = _TABLE.search(data)
    if not data.startswith(b"%PDF-") or table is None:
        raise inturn.Reject("this is no PDF, or its end is missing")
    places = [int(place) for place in re.findall(rb"(\d{10}) \d{5} n", data[int(table[1]) :])]
    objects = {}
    for place, end in zip(places, [*places[1:], int(table[1])], strict=True):
        start = _OBJECT.match(data, place)
        if start is None:
            raise inturn.Reject("this PDF is damaged: its table of objects is wrong")
        objects[int(start[1])] = data[start.end() : end].removesuffix(b"\n").removesuffix(b"\nendobj")
    return objects


def _in_order(objects: dict[int, bytes], pages: list[int]) -> list[int]:
    """Return the pages in the order of the page tree."""
    (tree,) = [body for body in objects.values() if b"/Type /Pages" in _head(body)]
    kids = re.search(rb"/Kids \[(.*?)\]", tree, re.DOTALL)
    listed = [int(number) for number in _REFERENCE.findall(kids[1])] if kids else []
    return [number for number in listed if number in pages]


def _write_page(objects: dict[int, bytes], page: int) -> bytes:
    """Write the page and all that it refers to as a file of its own."""
    numbers = {page: _FIRST_FREE_NUMBER}
    wanted = [page]
    for number in wanted:  # grows meanwhile
        for reference in map(int, _REFERENCE.findall(_without_parent(objects[number]))):
            if reference not in numbers:
                numbers[reference] = _FIRST_FREE_NUMBER + len(numbers)
                wanted.append(reference)
    copies = [_renumber(objects[number], numbers) for number in wanted]
    tree = b"<< /Type /Pages /Kids [%d 0 R] /Count 1 >>" % _FIRST_FREE_NUMBER
    return assemble([b"<< /Type /Catalog /Pages %d 0 R >>" % _PAGES_NUMBER, tree, *copies], b"/Root 1 0 R")


def _renumber(body: bytes, numbers: dict[int, int]) -> bytes:
    head, rest = _head(body), body[len(_head(body)) :]
    head = re.sub(rb"/Parent \d+ 0 R", b"/Parent 0 0 R", head)
    known = {0: _PAGES_NUMBER, **numbers}
    return _REFERENCE.sub(lambda match: b"%d 0 R" % known[int(match[1])], head) + rest


def _without_parent(body: bytes) -> bytes:
    return re.sub(rb"/Parent \d+ 0 R", b"", _head(body))


def _head(body: bytes) -> bytes:
    """What stands before the bytes of a stream, which may look like anything."""
    return body.partition(b"\nstream\n")[0]
