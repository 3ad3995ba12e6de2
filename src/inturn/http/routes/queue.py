"""Serve `/v1/queue`, which pauses and resumes all queues, `/v1/queues`, one of them, and `/v1/server`."""

from typing import Annotated, Final

from fastapi import APIRouter, Path

from inturn import __version__
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.scope import CallerScope, ReadScope, WriteScope
from inturn.http.serializers import serialize_operator, serialize_queue

router: Final = APIRouter(prefix="/v1", tags=["operators"])
NamedQueue = Annotated[str, Path(description="The queue's name.", examples=["ocr"])]


@router.get("/queue", operation_id="getQueue", responses=ErrorResponses.of())
def queue(scope: ReadScope, _: OperatorAccess) -> schemas.Queue:
    """Operators: whether all queues are paused, by whom and why."""
    return _serialize_pause(scope)


@router.post("/queue/pause", operation_id="pauseQueue", responses=ErrorResponses.of(422))
def pause(scope: WriteScope, _: OperatorAccess) -> schemas.Queue:
    """Operators: start no documents of any customer. Running ones finish, and submissions are accepted."""
    scope.app_state.queue.pause(scope.operator)
    return _serialize_pause(scope)


@router.post("/queue/resume", operation_id="resumeQueue", responses=ErrorResponses.of(422))
def resume(scope: WriteScope, _: OperatorAccess) -> schemas.Queue:
    """Operators: start documents again. A queue that is paused by itself stays so."""
    scope.app_state.queue.resume(scope.operator)
    return _serialize_pause(scope)


@router.get("/queues", operation_id="listQueues", responses=ErrorResponses.of())
def list_queues(scope: ReadScope, _: OperatorAccess) -> schemas.Queues:
    """Operators: list the queues with their settings, pauses, and waiting and running documents."""
    queue = scope.app_state.queue
    return schemas.Queues(queues=[serialize_queue(status, queue) for status in queue.queues()])


@router.patch("/queues/{name}", operation_id="updateQueue", responses=ErrorResponses.of(413, 422))
def update_queue(
    name: NamedQueue, body: schemas.QueueChange, scope: WriteScope, _: OperatorAccess
) -> schemas.NamedQueue:
    """Operators: change the settings given of a queue. One that does not exist is made."""
    values = body.model_dump()
    changes = {field: values[field] for field in body.model_fields_set}
    if body.rate is not None:
        changes["rate"] = (body.rate.documents, body.rate.per)
    scope.app_state.queue.change_queue(name, scope.operator, **changes)
    return _read_queue(scope, name)


@router.post("/queues/{name}/pause", operation_id="pauseNamedQueue", responses=ErrorResponses.of(422))
def pause_queue(name: NamedQueue, scope: WriteScope, _: OperatorAccess) -> schemas.NamedQueue:
    """Operators: start no documents of one queue. Running ones finish, and submissions are accepted."""
    scope.app_state.queue.pause(scope.operator, queue=name)
    return _read_queue(scope, name)


@router.post("/queues/{name}/resume", operation_id="resumeNamedQueue", responses=ErrorResponses.of(422))
def resume_queue(name: NamedQueue, scope: WriteScope, _: OperatorAccess) -> schemas.NamedQueue:
    """Operators: start documents of one queue again."""
    scope.app_state.queue.resume(scope.operator, queue=name)
    return _read_queue(scope, name)


@router.get("/server", operation_id="getServer", responses=ErrorResponses.of())
def server(scope: ReadScope) -> schemas.Server:
    """The limits of one upload, one key and one customer; for operators also the version."""
    limits = schemas.Limits.model_validate(scope.app_state.settings.limits, from_attributes=True)
    return schemas.Server(version=__version__ if scope.caller.sees_all else None, limits=limits)


def _read_queue(scope: CallerScope, name: str) -> schemas.NamedQueue:
    return serialize_queue(scope.app_state.queue.queue_status(name), scope.app_state.queue)


def _serialize_pause(scope: CallerScope) -> schemas.Queue:
    return schemas.Queue(paused=serialize_operator(scope.app_state.queue.paused()))
