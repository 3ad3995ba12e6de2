"""`/v1/queue` and `/v1/server`: the queue as a whole, paused and resumed, and what this server is and takes."""

from typing import Final

from fastapi import APIRouter

from inturn import __version__
from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.errors import Answers
from inturn.http.scoped import ByHand, Scoped, Seen

router: Final = APIRouter(prefix="/v1", tags=["operators"])


@router.get("/queue", operation_id="getQueue", responses=Answers.of())
def queue(seen: Seen, _: OperatorsEyes) -> schemas.Queue:
    """Operators: whether the queue runs, and if not, who paused it and why."""
    return _view(seen)


@router.post("/queue/pause", operation_id="pauseQueue", responses=Answers.of(422))
def pause(by_hand: ByHand, _: OperatorsEyes) -> schemas.Queue:
    """Operators: start nothing more, of nobody. What runs is finished, and documents still come in."""
    by_hand.service.queue.pause(by_hand.operator)
    return _view(by_hand)


@router.post("/queue/resume", operation_id="resumeQueue", responses=Answers.of(422))
def resume(by_hand: ByHand, _: OperatorsEyes) -> schemas.Queue:
    """Operators: start documents again."""
    by_hand.service.queue.resume(by_hand.operator)
    return _view(by_hand)


@router.get("/server", operation_id="getServer", responses=Answers.of())
def server(seen: Seen) -> schemas.Server:
    """How much this server takes of one upload, one key and one customer; operators also learn its version."""
    held = seen.service.settings.limits
    taken = {each: getattr(held, each) for each in schemas.Limits.model_fields}
    return schemas.Server(version=__version__ if seen.caller.sees_all else None, limits=schemas.Limits(**taken))


def _view(seen: Scoped) -> schemas.Queue:
    paused = seen.service.queue.store.paused()
    return schemas.Queue(paused=None if paused is None else schemas.Paused(operator=paused.name, why=paused.why))
