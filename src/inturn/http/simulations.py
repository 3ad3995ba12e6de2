"""`/v1/simulations`: built-in scenarios in several orders. `/v1/replays`: the queue's own past. For operators."""

from functools import cache
from typing import Final

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from inturn.errors import InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.errors import Answers
from inturn.http.jobs import MEDIA, MOST, lines_of
from inturn.http.scoped import Seen
from inturn.simulate import built_in
from inturn.simulate.history import DAY
from inturn.simulate.scenario import Scenario

router: Final = APIRouter(prefix="/v1", tags=["simulations"])


@router.get("/simulations", operation_id="listScenarios", responses=Answers.of())
def scenarios(_: OperatorsEyes) -> schemas.Scenarios:
    """Operators: the scenarios that can be played."""
    return schemas.Scenarios(scenarios=[_view(each) for each in _known().values()])


@router.post(
    "/simulations",
    operation_id="runSimulation",
    response_class=StreamingResponse,
    responses=Answers.of(422) | lines_of("the `reports`"),
)
async def simulate(given: schemas.Simulation, seen: Seen, _: OperatorsEyes) -> StreamingResponse:
    """Operators: play a scenario in one or more orders, and tell who waits how long in each.

    At most 50,000 documents and a minute. Hang up to end it.
    """
    if given.scenario not in _known():
        raise InvalidInputError(f"there is no scenario {given.scenario!r}; known are {', '.join(_known())}")
    if len(set(given.orders)) < len(given.orders):
        raise InvalidInputError("name each order once")
    jobs = seen.service.jobs
    jobs.check_room()
    return StreamingResponse(jobs.told("inturn.http.playing", {**given.model_dump(), "most": MOST}), media_type=MEDIA)


@router.post(
    "/replays",
    operation_id="runReplay",
    response_class=StreamingResponse,
    responses=Answers.of(422) | lines_of("the `comparison`"),
)
async def replay(given: schemas.Replay, seen: Seen, _: OperatorsEyes) -> StreamingResponse:
    """Operators: play what really came in once more, as it was, and with another order or other workers.

    At most 50,000 documents, the newest of that time, and a minute. Hang up to end it.
    """
    service = seen.service
    since = max(0, service.clock.now() - DAY) if given.since is None else given.since
    if given.until is not None and given.until <= since:
        raise InvalidInputError("`until` must be later than `since`")
    service.previews.check_room()
    plan = {"order": given.order, "workers": given.workers}
    return StreamingResponse(service.previews.replayed(plan, since, given.until), media_type=MEDIA)


@cache
def _known() -> dict[str, Scenario]:
    return built_in()


def _view(scenario: Scenario) -> schemas.Scenario:
    groups = [schemas.ScenarioGroup(group=each.name, customers=each.customers) for each in scenario.groups]
    return schemas.Scenario(scenario=scenario.name, title=scenario.title, workers=scenario.workers, groups=groups)
