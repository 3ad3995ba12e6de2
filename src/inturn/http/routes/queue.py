"""`/v1/queue` and `/v1/server`: the queue as a whole, paused and resumed, and what this server is and takes."""

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
    """Operators: whether the queue runs, and if not, who paused it and why."""
    return _serialize_queue(scope)


@router.post("/queue/pause", operation_id="pauseQueue", responses=ErrorResponses.of(422))
def pause(scope: WriteScope, _: OperatorAccess) -> schemas.Queue:
    """Operators: start nothing more, of nobody. What runs is finished, and documents still come in."""
    scope.app_state.queue.pause(scope.operator)
    return _serialize_queue(scope)


@router.post("/queue/resume", operation_id="resumeQueue", responses=ErrorResponses.of(422))
def resume(scope: WriteScope, _: OperatorAccess) -> schemas.Queue:
    """Operators: start documents again."""
    scope.app_state.queue.resume(scope.operator)
    return _serialize_queue(scope)


@router.get("/server", operation_id="getServer", responses=ErrorResponses.of())
def server(scope: ReadScope) -> schemas.Server:
    """How much this server takes of one upload, one key and one customer; operators also learn its version."""
    held = scope.app_state.settings.limits
    taken = {model_field: getattr(held, model_field) for model_field in schemas.Limits.model_fields}
    return schemas.Server(version=__version__ if scope.caller.sees_all else None, limits=schemas.Limits(**taken))


def _serialize_queue(scope: CallerScope) -> schemas.Queue:
    paused = scope.app_state.queue.store.paused()
    return schemas.Queue(paused=None if paused is None else schemas.Paused(operator=paused.name, why=paused.why))
