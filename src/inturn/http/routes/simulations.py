"""`/v1/simulations`: built-in scenarios in several orders. `/v1/replays`: the queue's own past. For operators."""

from functools import cache
from typing import Final

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from inturn.analysis import built_in_scenarios
from inturn.analysis.history import DAY
from inturn.analysis.scenario import Scenario
from inturn.errors import InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.scope import ReadScope
from inturn.http.simulation_jobs import MAX_JOB_DOCUMENTS, NDJSON_MEDIA_TYPE, ndjson_response

router: Final = APIRouter(prefix="/v1", tags=["simulations"])


@router.get("/simulations", operation_id="listScenarios", responses=ErrorResponses.of())
def scenarios(_: OperatorAccess) -> schemas.Scenarios:
    """Operators: the scenarios that can be played."""
    return schemas.Scenarios(scenarios=[_serialize_scenario(scenario) for scenario in _scenarios_by_name().values()])


@router.post(
    "/simulations",
    operation_id="runSimulation",
    response_class=StreamingResponse,
    responses=ErrorResponses.of(422) | ndjson_response("the `reports`"),
)
async def simulate(body: schemas.Simulation, scope: ReadScope, _: OperatorAccess) -> StreamingResponse:
    """Operators: play a scenario in one or more orders, and tell who waits how long in each.

    At most 50,000 documents and a minute. Hang up to end it.
    """
    if body.scenario not in _scenarios_by_name():
        raise InvalidInputError(f"there is no scenario {body.scenario!r}; known are {', '.join(_scenarios_by_name())}")
    if len(set(body.orders)) < len(body.orders):
        raise InvalidInputError("name each order once")
    jobs = scope.app_state.job_runner
    jobs.require_capacity()
    return StreamingResponse(
        jobs.stream("inturn.http.playing", {**body.model_dump(), "most": MAX_JOB_DOCUMENTS}),
        media_type=NDJSON_MEDIA_TYPE,
    )


@router.post(
    "/replays",
    operation_id="runReplay",
    response_class=StreamingResponse,
    responses=ErrorResponses.of(422) | ndjson_response("the `comparison`"),
)
async def replay(body: schemas.Replay, scope: ReadScope, _: OperatorAccess) -> StreamingResponse:
    """Operators: play what really came in once more, as it was, and with another order or other workers.

    At most 50,000 documents, the newest of that time, and a minute. Hang up to end it.
    """
    service = scope.app_state
    since = max(0, service.clock.now() - DAY) if body.since is None else body.since
    if body.until is not None and body.until <= since:
        raise InvalidInputError("`until` must be later than `since`")
    service.replay_jobs.require_capacity()
    plan = {"order": body.order, "workers": body.workers}
    return StreamingResponse(service.replay_jobs.replay(plan, since, body.until), media_type=NDJSON_MEDIA_TYPE)


@cache
def _scenarios_by_name() -> dict[str, Scenario]:
    return built_in_scenarios()


def _serialize_scenario(scenario: Scenario) -> schemas.Scenario:
    groups = [schemas.ScenarioGroup(group=group.name, customers=group.customers) for group in scenario.groups]
    return schemas.Scenario(scenario=scenario.name, title=scenario.title, workers=scenario.workers, groups=groups)
