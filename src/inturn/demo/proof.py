"""The demo checks itself: what is missing or wrong, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inturn.blobs import Blobs
from inturn.demo.intake import Ready
from inturn.errors import BlobError
from inturn.model import Document, DocumentState
from inturn.processing.desk import read_result
from inturn.queue import Queue


def problems(
    queue: Queue, blobs: Blobs, documents: Sequence[Document], expected: Mapping[str, Ready], number: int
) -> list[str]:
    """Everything that is not as it must be: each document once, done, its bytes whole, its words in its result."""
    found = []
    if {each.id for each in documents} != set(expected) or len(documents) != number:
        found.append(f"{number} documents were to come, {len(expected)} were submitted, {len(documents)} are kept")
    for each in documents:
        if each.id in expected:
            said = _wrong_with(queue, blobs, each, expected[each.id])
            found += [f"{each.customer}, {each.given.name}: {what}" for what in said]
    return found


def _wrong_with(queue: Queue, blobs: Blobs, document: Document, ready: Ready) -> Iterator[str]:
    if document.state is not DocumentState.DONE:
        yield f"it is {document.state}: {document.error or 'nobody says why'}"
        return
    if document.given.sha256 != ready.sha256:
        yield "its SHA-256 is not that of the bytes that were made"
    try:
        blobs.check(document.given.blob or "", ready.sha256)
        for file in queue.files(document.id):
            blobs.check(file.blob, file.sha256)
        yield from _wrong_result(read_result(queue, blobs, document.id), ready)
    except BlobError as wrong:
        yield str(wrong)


def _wrong_result(result: Any, ready: Ready) -> Iterator[str]:
    if not isinstance(result, dict) or not result.get("pages"):
        yield "its result is empty"
    elif ready.has_text and _letters(ready.title) not in _letters(str(result.get("text"))):
        yield f"its result does not have its title, {ready.title}"


def _letters(text: str) -> str:
    """Without blanks: where lines are broken is up to the reader of the file."""
    return "".join(text.split())
