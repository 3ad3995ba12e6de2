"""Serve `/v1/queue`, which pauses and resumes, and `/v1/server`, its version and limits."""

from typing import Final

from fastapi import APIRouter

from inturn import __version__
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.scope import CallerScope, ReadScope, WriteScope

router: Final = APIRouter(prefix="/v1", tags=["operators"])


@router.get("/queue", operation_id="getQueue", responses=ErrorResponses.of())
def queue(scope: ReadScope, _: OperatorAccess) -> schemas.Queue:
    """Operators: whether the queue is paused, by whom and why."""
    return _serialize_queue(scope)


@router.post("/queue/pause", operation_id="pauseQueue", responses=ErrorResponses.of(422))
def pause(scope: WriteScope, _: OperatorAccess) -> schemas.Queue:
    """Operators: start no documents of any customer. Running ones finish, and submissions are accepted."""
    scope.app_state.queue.pause(scope.operator)
    return _serialize_queue(scope)


@router.post("/queue/resume", operation_id="resumeQueue", responses=ErrorResponses.of(422))
def resume(scope: WriteScope, _: OperatorAccess) -> schemas.Queue:
    """Operators: start documents again."""
    scope.app_state.queue.resume(scope.operator)
    return _serialize_queue(scope)


@router.get("/server", operation_id="getServer", responses=ErrorResponses.of())
def server(scope: ReadScope) -> schemas.Server:
    """The limits of one upload, one key and one customer; for operators also the version."""
    limits = schemas.Limits.model_validate(scope.app_state.settings.limits, from_attributes=True)
    return schemas.Server(version=__version__ if scope.caller.sees_all else None, limits=limits)


def _serialize_queue(scope: CallerScope) -> schemas.Queue:
    paused = scope.app_state.queue.paused()
    return schemas.Queue(paused=None if paused is None else schemas.Paused(operator=paused.name, why=paused.why))
