"""Serve human steps to operators: what waits in a queue, and the documents that people take from it."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query

from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.routes.documents import DocumentId
from inturn.http.routes.queue import NamedQueue
from inturn.http.scope import CallerScope, ReadScope, read_scope
from inturn.http.serializers import serialize_document, serialize_form, serialize_queue, serialize_taken
from inturn.human_steps import DEFAULT_PERSON_LEASE, HumanSteps
from inturn.insights import waiting_in_order
from inturn.model import Document, DocumentState
from inturn.store_types import DocumentFilter
from inturn.validation import MAX_LEASE, MIN_LEASE

router: Final = APIRouter(prefix="/v1", tags=["operators"])
MAX_LISTED: Final = 100
PersonScope = Annotated[CallerScope, Depends(read_scope)]
"""The scope of a person who works on a document: the work is in its timeline, not in the audit log."""
Lease = Annotated[
    int,
    Query(
        ge=MIN_LEASE, le=MAX_LEASE, description="How long the document is held unless it is extended, in microseconds."
    ),
]


@router.get("/queues/{name}/documents", operation_id="listQueueDocuments", responses=ErrorResponses.of(422))
def list_queue_documents(
    name: NamedQueue, scope: ReadScope, _: OperatorAccess, limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 50
) -> schemas.QueueDocuments:
    """Operators: what waits in a queue, in its order, and what a person or a worker has taken. Parts included."""
    queue = scope.app_state.queue
    status = queue.queue_status(name)
    where = DocumentFilter(frozenset({DocumentState.RUNNING}), queue=status.name)
    taken = queue.documents(where, limit=limit).items
    return schemas.QueueDocuments(
        queue=serialize_queue(status, queue),
        waiting=[
            schemas.QueuedDocument(document=serialize_document(item.document, scope.caller), place=item.place)
            for item in waiting_in_order(queue, status.name, limit=limit)
        ],
        taken=[serialize_taken(document, scope.caller) for document in taken],
    )


@router.post("/queues/{name}/take", operation_id="takeDocument", responses=ErrorResponses.of(409, 422))
def take(name: NamedQueue, scope: PersonScope, _: OperatorAccess, lease: Lease = DEFAULT_PERSON_LEASE) -> schemas.Taken:
    """Operators: take the next document of a queue that people serve, for half an hour if nothing else is said."""
    taken = _human_steps(scope).take(name, lease=lease)
    return schemas.Taken(
        taken=None if taken.claim is None else serialize_taken(taken.claim.document, scope.caller),
        waiting=taken.waiting,
        form=serialize_form(scope.app_state.queue.queue_status(name).settings.form),
    )


@router.post("/documents/{id}/extend", operation_id="extendDocument", responses=ErrorResponses.of(409, 413, 422))
def extend(
    id: DocumentId, body: schemas.Fence, scope: PersonScope, _: OperatorAccess, lease: Lease = DEFAULT_PERSON_LEASE
) -> schemas.TakenDocument:
    """Operators: hold a document that was taken for as long again, from now."""
    document = _human_steps(scope).extend(scope.document(id).id, body.fence, lease=lease)
    return serialize_taken(document, scope.caller)


@router.post("/documents/{id}/finish", operation_id="finishDocument", responses=ErrorResponses.of(409, 413, 422))
def finish(id: DocumentId, body: schemas.Finish, scope: PersonScope, _: OperatorAccess) -> schemas.Document:
    """Operators: record the result of a document that was taken. It goes to the next queue, or is done."""
    steps, own = _human_steps(scope), scope.document(id)
    return _serialize(scope, steps.finish(own.id, body.fence, body.result, to=body.next))


@router.post("/documents/{id}/release", operation_id="releaseDocument", responses=ErrorResponses.of(409, 413, 422))
def release(id: DocumentId, body: schemas.Fence, scope: PersonScope, _: OperatorAccess) -> schemas.Document:
    """Operators: hand back a document that was taken. It keeps its place, and no attempt is counted."""
    return _serialize(scope, _human_steps(scope).release(scope.document(id).id, body.fence))


@router.post("/documents/{id}/reject", operation_id="rejectDocument", responses=ErrorResponses.of(409, 413, 422))
def reject(id: DocumentId, body: schemas.Rejection, scope: PersonScope, _: OperatorAccess) -> schemas.Document:
    """Operators: fail a document that was taken for good, with a reason, which its customer sees."""
    return _serialize(scope, _human_steps(scope).reject(scope.document(id).id, body.fence, body.reason))


def _human_steps(scope: CallerScope) -> HumanSteps:
    return HumanSteps(scope.app_state.queue, scope.caller.name)


def _serialize(scope: CallerScope, document: Document) -> schemas.Document:
    return serialize_document(document, scope.caller)
