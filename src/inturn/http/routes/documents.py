"""Serve `/v1/documents`, `/v1/batches` and `/v1/limits`."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Annotated, Any, Final

from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.routing import APIRoute

from inturn import insights
from inturn.errors import NotFoundError
from inturn.http import schemas
from inturn.http.auth import BEARER_SCHEME, get_caller
from inturn.http.errors import ErrorResponses
from inturn.http.routes.attachments import BYTES_RESPONSE, attachment_response
from inturn.http.routes.filters import PageLimit, Where, with_states
from inturn.http.scope import CallerScope, ReadScope, WriteScope, require_done
from inturn.http.serializers import (
    negotiate_language,
    object_with_result,
    serialize_document,
    serialize_files,
    serialize_timeline,
    serialize_why,
)
from inturn.http.state import get_app_state
from inturn.http.uploads.reader import SubmissionReader
from inturn.i18n import Texts
from inturn.model import ENDED, Document, DocumentState
from inturn.store_types import DocumentSort
from inturn.values import MAX_NAME_LENGTH, clean_text
from inturn.worker.content import RESULT_FILE, read_result_text

MAX_WAIT_SECONDS: Final = 60
MAX_IDS: Final = 100
router: Final = APIRouter(prefix="/v1", tags=["documents"])

DocumentId = Annotated[str, Path(description="The document's id.")]
WaitSeconds = Annotated[
    float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for its end before the response.")
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=MAX_NAME_LENGTH, description="Makes repeating the call safe."
    ),
]
FORM_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "file": {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1, "maxItems": 10},
        "customer": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH, "example": "acme"},
        "batch": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH},
        "group": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH},
        "queue": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", "example": "ocr"},
        "steps": {
            "type": "string",
            "description": "The queues that it passes through, with commas between them. The first is its `queue`.",
            "example": "ocr,classify",
        },
        "metadata": {"type": "string", "description": "A JSON object."},
        "delay": {"type": "integer", "minimum": 0, "description": "Operators only."},
        "start_by": {"type": "integer", "minimum": 0, "description": "Operators only."},
        "cost": {"type": "number", "minimum": 0.001, "maximum": 10_000, "description": "Operators only."},
    },
    "required": ["file"],
    "additionalProperties": False,
}
SUBMIT_OPENAPI: Final[dict[str, Any]] = {
    "security": [{BEARER_SCHEME.scheme_name: []}],
    "parameters": [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_LENGTH},
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
            "multipart/form-data": {"schema": FORM_SCHEMA},
        },
    },
}


async def submit(request: Request) -> Response:
    """Submit documents of one customer: files, texts, or references. The response means that they are durable."""
    scope = CallerScope(get_app_state(request), await get_caller(request, await BEARER_SCHEME(request)))
    header = request.headers.get("idempotency-key")
    idempotency_key = None if header is None else clean_text("Idempotency-Key", header)
    accepted = await SubmissionReader(scope, idempotency_key, request.app.state.submission_batcher).submit(request)
    receipts = [receipt._asdict() for receipt in accepted.receipts]
    return JSONResponse({"customer": accepted.customer, "receipts": receipts}, 202)


class SubmitRoute(APIRoute):
    """Call the endpoint without FastAPI's dependencies and validation: it reads the body itself, as a stream."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint itself."""
        return submit


router.add_api_route(
    "/documents",
    submit,
    methods=["POST"],
    operation_id="submitDocuments",
    status_code=202,
    response_model=schemas.Accepted,
    responses=ErrorResponses.of(408, 409, 413, 415, 422, 507),
    openapi_extra=SUBMIT_OPENAPI,
    route_class_override=SubmitRoute,
)


@router.get("/documents", operation_id="listDocuments", responses=ErrorResponses.of(422))
def documents(  # noqa: PLR0913 - one parameter for each filter
    scope: ReadScope,
    where: Where,
    *,
    state: Annotated[list[DocumentState] | None, Query()] = None,
    sort: Annotated[DocumentSort, Query(description="The order of the list.")] = DocumentSort.NEWEST,
    limit: PageLimit = 100,
    after: Annotated[str | None, Query(description="The `next` of the page before.")] = None,
    id: Annotated[
        list[str] | None, Query(max_length=MAX_IDS, description="Only these documents; other filters are ignored.")
    ] = None,
) -> schemas.DocumentPage:
    """List documents, newest or oldest first."""
    if id:
        by_id = [serialize_document(document, scope.caller) for document in scope.documents_by_id(id)]
        return schemas.DocumentPage(documents=by_id, next=None)
    page = scope.documents(with_states(where, state), limit, after, sort)
    return schemas.DocumentPage(
        documents=[serialize_document(document, scope.caller) for document in page.items], next=page.next
    )


@router.get("/documents/counts", operation_id="countDocuments", responses=ErrorResponses.of(422))
def counts(scope: ReadScope, where: Where) -> schemas.Counts:
    """Count by state the documents that a list with the same filters has, parts like it."""
    states = scope.counts(where).states
    counts_by_state = {str(state): states.get(state, 0) for state in DocumentState}
    return schemas.Counts(documents=sum(counts_by_state.values()), states=counts_by_state)


@router.get("/documents/{id}", operation_id="getDocument", responses=ErrorResponses.of(422))
async def document(id: DocumentId, scope: ReadScope, wait: WaitSeconds = 0) -> schemas.Document:
    """Return a document; with `wait`, after it has ended or that time has passed."""
    return serialize_document(await _wait_for_end(scope, id, wait), scope.caller)


@router.delete("/documents/{id}", operation_id="cancelDocument", responses=ErrorResponses.of(409, 422))
def cancel(id: DocumentId, scope: WriteScope) -> schemas.Document:
    """Cancel a document that has not ended."""
    return serialize_document(scope.cancel(id), scope.caller)


@router.post(
    "/documents/{id}/retry", operation_id="retryDocument", status_code=202, responses=ErrorResponses.of(409, 422)
)
def retry(
    id: DocumentId,
    scope: WriteScope,
    *,
    from_start: Annotated[
        bool, Query(description="Begin with the first step, without the results and parts of earlier ones.")
    ] = False,
) -> schemas.Receipt:
    """Retry a document that ended without a result, from the step that it stopped at; it gets a new check."""
    return schemas.Receipt(**scope.retry(id, from_start=from_start)._asdict())


@router.post("/documents/{id}/expedite", operation_id="expediteDocument", responses=ErrorResponses.of(409, 422))
def expedite(
    id: DocumentId,
    scope: WriteScope,
    *,
    undo: Annotated[bool, Query(description="Move an expedited document that waits back to its place.")] = False,
) -> schemas.Document:
    """Operators: move a waiting document before all levels."""
    return serialize_document(scope.expedite(id, undo=undo), scope.caller)


@router.get("/documents/{id}/why", operation_id="explainDocument", responses=ErrorResponses.of(422))
def why(id: DocumentId, request: Request, scope: ReadScope) -> schemas.Why:
    """Explain a document's position and estimated start, as data and in the caller's language."""
    texts = Texts(negotiate_language(request.headers.get("accept-language")))
    why = scope.why(id)
    return serialize_why(why, scope.caller, texts, scope.app_state.shares.of(why.document.customer))


@router.get("/documents/{id}/timeline", operation_id="getDocumentTimeline", responses=ErrorResponses.of(422))
def timeline(id: DocumentId, scope: ReadScope) -> schemas.Timeline:
    """Return the events of a document, each attempt with its error, and the progress of its processor."""
    document = scope.document(id)
    return serialize_timeline(
        document,
        insights.document_timeline(scope.app_state.queue, document),
        scope.progress(document),
        scope.caller,
    )


@router.get(
    "/documents/{id}/result",
    operation_id="getDocumentResult",
    response_model=schemas.Result,
    responses=ErrorResponses.of(409, 422),
)
async def result(id: DocumentId, scope: ReadScope, wait: WaitSeconds = 0) -> Response:
    """Return the result of a document that is done, that of its last step; with `wait`, after it has ended."""
    document = await _wait_for_end(scope, id, wait)
    return await to_thread.run_sync(_result_response, scope, document)


@router.get(
    "/documents/{id}/files/{name:path}",
    operation_id="getDocumentResultFile",
    response_class=StreamingResponse,
    responses={**ErrorResponses.of(409, 422), **BYTES_RESPONSE},
)
def result_file(id: DocumentId, name: str, scope: ReadScope) -> StreamingResponse:
    """Return a file of a result."""
    document = scope.document(id)
    require_done(document)
    for file in scope.app_state.queue.files(document.id):
        if file.name == name and name != RESULT_FILE:
            return attachment_response(scope, file.blob, file.name, file.size)
    raise NotFoundError("the result has no such file")


@router.get(
    "/documents/{id}/content",
    operation_id="getDocumentContent",
    response_class=StreamingResponse,
    responses={**ErrorResponses.of(422), **BYTES_RESPONSE},
)
def content(id: DocumentId, scope: ReadScope) -> StreamingResponse:
    """Return the bytes of a document as they were submitted."""
    spec = scope.document(id).spec
    if spec.blob is None:
        raise NotFoundError("this document has no stored bytes")
    return attachment_response(scope, spec.blob, spec.name, spec.size)


@router.get("/batches/{name:path}", operation_id="getBatch", tags=["batches"], responses=ErrorResponses.of(422))
def batch(name: str, scope: ReadScope) -> schemas.Batch:
    """Return the progress of a batch. It counts its documents, not the parts that some of them are split into."""
    states = scope.batch(name).states
    ended = sum(n for state, n in states.items() if state in ENDED)
    counts_by_state = {str(state): n for state, n in sorted(states.items())}
    return schemas.Batch(batch=name, documents=sum(states.values()), ended=ended, states=counts_by_state)


@router.get("/limits", operation_id="getUploadLimits", responses=ErrorResponses.of())
def limits(scope: ReadScope) -> schemas.UploadLimits:
    """Return the limits of one upload."""
    server_limits = scope.app_state.settings.limits
    return schemas.UploadLimits(file=server_limits.file, body=server_limits.body, files=server_limits.files)


async def _wait_for_end(scope: CallerScope, id_: str, wait: float) -> Document:
    """Read a document, after waiting for its end for at most `wait` seconds."""
    document = await to_thread.run_sync(scope.document, id_)
    if not wait or document.state in ENDED:
        return document
    with scope.app_state.event_poller.document_waiter(document.id) as wakeup, suppress(TimeoutError):
        async with asyncio.timeout(wait):
            # The document may have ended before the waiter was registered.
            while (document := await to_thread.run_sync(scope.document, id_)).state not in ENDED:
                await wakeup.wait()
                if scope.app_state.event_poller.is_stopping:
                    break
                wakeup.clear()
    return document


def _result_response(scope: CallerScope, document: Document) -> Response:
    require_done(document)
    queue, blobs = scope.app_state.queue, scope.app_state.blobs
    files = serialize_files(queue.files(document.id))
    envelope = schemas.Result(id=document.id, result=None, files=files).model_dump(mode="json")
    text = object_with_result(envelope, read_result_text(queue, blobs, document.id))
    return Response(text, media_type="application/json")
