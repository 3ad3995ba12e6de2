"""The demo checks itself: what is missing or wrong, in words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demo.submitter import PreparedDocument
from inturn.blobs import Blobs
from inturn.errors import BlobError
from inturn.model import Document, DocumentState
from inturn.queue import Queue
from inturn.worker.content import read_result


def find_problems(
    queue: Queue, blobs: Blobs, documents: Sequence[Document], expected: Mapping[str, PreparedDocument], number: int
) -> list[str]:
    """Everything that is not as it must be: each document once, done, its bytes whole, its words in its result."""
    result = []
    if {document.id for document in documents} != set(expected) or len(documents) != number:
        result.append(f"{number} documents were to come, {len(expected)} were submitted, {len(documents)} are kept")
    for document in documents:
        if document.id in expected:
            said = _document_problems(queue, blobs, document, expected[document.id])
            result += [f"{document.customer}, {document.spec.name}: {what}" for what in said]
    return result


def _document_problems(queue: Queue, blobs: Blobs, document: Document, prepared: PreparedDocument) -> Iterator[str]:
    if document.state is not DocumentState.DONE:
        yield f"it is {document.state}: {document.error or 'nobody says why'}"
        return
    if document.spec.sha256 != prepared.sha256:
        yield "its SHA-256 is not that of the bytes that were made"
    try:
        blobs.check(document.spec.blob or "", prepared.sha256)
        for file in queue.files(document.id):
            blobs.check(file.blob, file.sha256)
        yield from _result_problems(read_result(queue, blobs, document.id), prepared)
    except BlobError as error:
        yield str(error)


def _result_problems(result: Any, prepared: PreparedDocument) -> Iterator[str]:
    if not isinstance(result, dict) or not result.get("pages"):
        yield "its result is empty"
    elif prepared.has_text and _without_whitespace(prepared.title) not in _without_whitespace(str(result.get("text"))):
        yield f"its result does not have its title, {prepared.title}"


def _without_whitespace(text: str) -> str:
    """Without blanks: where lines are broken is up to the reader of the file."""
    return "".join(text.split())
