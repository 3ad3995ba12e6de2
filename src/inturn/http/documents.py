"""`/v1/documents` and `/v1/batches`."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, BinaryIO, Final
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

from inturn import insights
from inturn.errors import BlobNotFoundError, NotFoundError
from inturn.http import schemas
from inturn.http.auth import BEARER, caller
from inturn.http.errors import Answers
from inturn.http.intake import Intake
from inturn.http.scoped import ByHand, Scoped, Seen, must_be
from inturn.http.service import service_of
from inturn.http.uploads import PIECE
from inturn.http.views import document_view, language_of, life_view, why_view
from inturn.i18n import Texts
from inturn.model import ENDED, MAX_NAME, Document, DocumentState, clean_text
from inturn.processing.desk import RESULT_FILE, read_result_text
from inturn.store import DocumentFilter, DocumentSort

MAX_WAIT: Final = 60
MAX_IDS: Final = 100
router: Final = APIRouter(prefix="/v1", tags=["documents"])

Id = Annotated[str, Path(description="The document's id.")]
Wait = Annotated[float, Query(ge=0, le=MAX_WAIT, description="Seconds to wait for its end before answering.")]
Limit = Annotated[int, Query(ge=1, le=1_000)]
Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", min_length=1, max_length=MAX_NAME, description="Makes repeating the call safe."),
]
FORM: Final = {
    "type": "object",
    "properties": {
        "file": {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1, "maxItems": 10},
        "customer": {"type": "string", "minLength": 1, "maxLength": MAX_NAME, "example": "acme"},
        "batch": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
        "metadata": {"type": "string", "description": "A JSON object."},
        "delay": {"type": "integer", "minimum": 0, "description": "Operators only."},
        "start_by": {"type": "integer", "minimum": 0, "description": "Operators only."},
        "cost": {"type": "number", "minimum": 0.001, "maximum": 10_000, "description": "Operators only."},
    },
    "required": ["file"],
    "additionalProperties": False,
}
BODY: Final[dict[str, Any]] = {
    "security": [{BEARER.scheme_name: []}],
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "minLength": 1, "maxLength": MAX_NAME},
            "description": "Makes repeating the call safe.",
        }
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/Submission"},
                "example": {"customer": "acme", "documents": [{"name": "a.txt", "text": "Hello"}]},
            },
            "multipart/form-data": {"schema": FORM},
        },
    },
}
BYTES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The bytes, as an attachment.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post(
    "/documents",
    operation_id="submitDocuments",
    status_code=202,
    response_model=schemas.Accepted,
    responses=Answers.of(408, 409, 413, 415, 422, 507),
    openapi_extra=BODY,
)
async def submit(request: Request) -> JSONResponse:
    """Take in documents of one customer: files, texts, or references. When this answers, they are kept."""
    seen = Scoped(service_of(request), await caller(request, await BEARER(request)))
    given = request.headers.get("idempotency-key")
    key = None if given is None else clean_text("Idempotency-Key", given)
    taken = await Intake(seen, key, request.app.state.gathering).take(request)
    receipts = [receipt._asdict() for receipt in taken.receipts]
    return JSONResponse({"customer": taken.customer, "receipts": receipts}, 202)


class Submit:
    """The same, served without what FastAPI does around a route, which would be half of the time this one takes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = await submit(Request(scope, receive))
        await answer(scope, receive, send)


@router.get("/documents", operation_id="listDocuments", responses=Answers.of(422))
def documents(  # noqa: PLR0913 - one parameter for each filter
    seen: Seen,
    *,
    state: Annotated[list[DocumentState] | None, Query()] = None,
    customer: str | None = None,
    level: Annotated[int | None, Query(ge=1, le=9)] = None,
    batch: str | None = None,
    text: Annotated[str | None, Query(description="Part of the name.")] = None,
    sort: Annotated[DocumentSort, Query(description="Which come first.")] = DocumentSort.NEWEST,
    limit: Limit = 100,
    after: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
    id: Annotated[
        list[str] | None, Query(max_length=MAX_IDS, description="These alone, whatever else is given.")
    ] = None,
) -> schemas.DocumentPage:
    """List documents, newest or oldest first."""
    if id:
        shown = [document_view(each, seen.caller) for each in seen.these(id)]
        return schemas.DocumentPage(documents=shown, next=None)
    where = DocumentFilter(frozenset(state) if state else None, customer, level, batch, text)
    page = seen.documents(where, limit, after, sort)
    return schemas.DocumentPage(documents=[document_view(each, seen.caller) for each in page.items], next=page.next)


@router.get("/documents/counts", operation_id="countDocuments", responses=Answers.of(422))
def counts(
    seen: Seen,
    *,
    customer: str | None = None,
    level: Annotated[int | None, Query(ge=1, le=9)] = None,
    batch: str | None = None,
    text: Annotated[str | None, Query(description="Part of the name.")] = None,
) -> schemas.Counts:
    """How many documents match, by state."""
    states = seen.counts(DocumentFilter(None, customer, level, batch, text)).states
    told = {str(state): states.get(state, 0) for state in DocumentState}
    return schemas.Counts(documents=sum(told.values()), states=told)


@router.get("/documents/{id}", operation_id="getDocument", responses=Answers.of(422))
async def document(id: Id, seen: Seen, wait: Wait = 0) -> schemas.Document:
    """One document; with `wait`, when it has ended or that time has passed."""
    return document_view(await _awaited(seen, id, wait), seen.caller)


@router.delete("/documents/{id}", operation_id="cancelDocument", responses=Answers.of(409, 422))
def cancel(id: Id, by_hand: ByHand) -> schemas.Document:
    """Cancel a document that has not ended."""
    return document_view(by_hand.cancel(id), by_hand.caller)


@router.post("/documents/{id}/retry", operation_id="retryDocument", status_code=202, responses=Answers.of(409, 422))
def retry(id: Id, by_hand: ByHand) -> schemas.Receipt:
    """Try a document again that ended without a result: a new check."""
    return schemas.Receipt(**by_hand.retry(id)._asdict())


@router.post("/documents/{id}/expedite", operation_id="expediteDocument", responses=Answers.of(409, 422))
def expedite(id: Id, by_hand: ByHand) -> schemas.Document:
    """Operators: move a waiting document before all levels."""
    return document_view(by_hand.expedite(id), by_hand.caller)


@router.get("/documents/{id}/why", operation_id="explainDocument", responses=Answers.of(422))
def why(id: Id, request: Request, seen: Seen) -> schemas.Why:
    """Say why a document is where it is and when it should start, as data and in the caller's language."""
    texts = Texts(language_of(request.headers.get("accept-language")))
    return why_view(seen.why(id), seen.caller, texts)


@router.get("/documents/{id}/life", operation_id="getDocumentTimeline", responses=Answers.of(422))
def life(id: Id, seen: Seen) -> schemas.Life:
    """What happened to a document so far, each attempt with its error, and how far its processor is with it."""
    found = seen.document(id)
    return life_view(found, insights.life(seen.service.queue.store, found), seen.progress(found), seen.caller)


@router.get(
    "/documents/{id}/result",
    operation_id="getDocumentResult",
    response_model=schemas.Result,
    responses=Answers.of(409, 422),
)
async def result(id: Id, seen: Seen, wait: Wait = 0) -> Response:
    """The result of a document that is done; with `wait`, when it has ended."""
    found = await _awaited(seen, id, wait)
    return await to_thread.run_sync(_result, seen, found)


@router.get(
    "/documents/{id}/files/{name:path}",
    operation_id="getDocumentResultFile",
    response_class=StreamingResponse,
    responses={**Answers.of(409, 422), **BYTES},
)
def result_file(id: Id, name: str, seen: Seen) -> StreamingResponse:
    """A file of a result."""
    found = seen.document(id)
    must_be(found, done=True)
    for each in seen.service.queue.files(found.id):
        if each.name == name and name != RESULT_FILE:
            return _attachment(seen, each.blob, each.name, each.size)
    raise NotFoundError("the result has no such file")


@router.get(
    "/documents/{id}/content",
    operation_id="getDocumentContent",
    response_class=StreamingResponse,
    responses={**Answers.of(422), **BYTES},
)
def content(id: Id, seen: Seen) -> StreamingResponse:
    """The bytes of a document as they were submitted."""
    given = seen.document(id).given
    if given.blob is None:
        raise NotFoundError("this document's bytes are not kept here")
    return _attachment(seen, given.blob, given.name, given.size)


@router.get("/batches/{name:path}", operation_id="getBatch", tags=["batches"], responses=Answers.of(422))
def batch(name: str, seen: Seen) -> schemas.Batch:
    """How far the documents of a batch are."""
    states = seen.batch(name).states
    ended = sum(n for state, n in states.items() if state in ENDED)
    told = {str(state): n for state, n in sorted(states.items())}
    return schemas.Batch(batch=name, documents=sum(states.values()), ended=ended, states=told)


@router.get("/limits", operation_id="getUploadLimits", responses=Answers.of())
def limits(seen: Seen) -> schemas.Taken:
    """How much one upload may bring."""
    taken = seen.service.settings.limits
    return schemas.Taken(file=taken.file, body=taken.body, files=taken.files)


async def _awaited(seen: Scoped, id_: str, wait: float) -> Document:
    """The document: at once, or when it has ended, or when the time is over."""
    found = await to_thread.run_sync(seen.document, id_)
    if not wait or found.state in ENDED:
        return found
    with seen.service.watcher.waiting(found.id) as rung, suppress(TimeoutError):
        async with asyncio.timeout(wait):
            # It may have ended before anybody listened.
            while (found := await to_thread.run_sync(seen.document, id_)).state not in ENDED:
                await rung.wait()
                if seen.service.watcher.is_stopping:
                    break
                rung.clear()
    return found


def _result(seen: Scoped, found: Document) -> Response:
    """Serve a result as the text that was stored: nothing then depends on how deeply it is nested."""
    must_be(found, done=True)
    queue, blobs = seen.service.queue, seen.service.blobs
    files = [
        schemas.ResultFile(name=each.name, size=each.size, sha256=each.sha256, media_type=each.media_type)
        for each in queue.files(found.id)
        if each.name != RESULT_FILE
    ]
    around = schemas.Result(id=found.id, result=None, files=files).model_dump(mode="json")
    parts = {name: json.dumps(value) for name, value in around.items()}
    parts["result"] = read_result_text(queue, blobs, found.id)
    body = ",".join(f'"{name}":{text}' for name, text in parts.items())
    return Response(f"{{{body}}}", media_type="application/json")


def _attachment(seen: Scoped, blob: str, name: str, size: int | None) -> StreamingResponse:
    """Bytes that no browser shows as a page of ours: always an attachment, never sniffed, never of a type that runs."""
    if seen.service.blobs is None:
        raise BlobNotFoundError("this server has no blobs: it was started without --blobs")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    if size is not None:
        headers["Content-Length"] = str(size)
    opened = seen.service.blobs.open(blob)
    return StreamingResponse(_pieces(opened), headers=headers, media_type="application/octet-stream")


def _pieces(source: BinaryIO) -> Iterator[bytes]:
    with source:
        while piece := source.read(PIECE):
            yield piece
