"""Serve `/v1/simulations`, `/v1/replays` and the routes that try or evaluate a policy. For operators."""

from functools import cache
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse

from inturn.analysis import built_in_scenarios
from inturn.analysis.history import DAY
from inturn.analysis.policy_evaluation import find_policy_change
from inturn.analysis.scenario import Scenario
from inturn.errors import InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses, TooManyError
from inturn.http.routes.policy import parse_policy
from inturn.http.scope import ReadScope
from inturn.http.simulation_jobs import MAX_CONCURRENT_JOBS, SimulationJobs

router: Final = APIRouter(prefix="/v1")
MAX_VERSION: Final = 2**62
NDJSON_MEDIA_TYPE: Final = "application/x-ndjson"
JOB_RETRY_AFTER_SECONDS: Final = 5


class NdjsonResponse(StreamingResponse):
    """Stream a job's lines."""

    media_type = NDJSON_MEDIA_TYPE


def _job_responses(result: str) -> dict[int | str, dict[str, Any]]:
    """Describe the responses of a job for OpenAPI."""
    content = {NDJSON_MEDIA_TYPE: {"schema": {"type": "string"}, "example": '{"done": 2000, "total": 6000}\n'}}
    description = f"JSON lines: the progress, then {result} or an `error`."
    return {**ErrorResponses.of(422), 200: {"description": description, "content": content}}


@router.get("/simulations", operation_id="listScenarios", tags=["simulations"], responses=ErrorResponses.of())
def scenarios(_: OperatorAccess) -> schemas.Scenarios:
    """Operators: list the built-in scenarios."""
    return schemas.Scenarios(scenarios=[_serialize_scenario(scenario) for scenario in _scenarios_by_name().values()])


@router.post(
    "/simulations",
    operation_id="runSimulation",
    tags=["simulations"],
    response_class=NdjsonResponse,
    responses=_job_responses("the `reports`"),
)
async def simulate(body: schemas.Simulation, scope: ReadScope, _: OperatorAccess) -> NdjsonResponse:
    """Operators: simulate a scenario in one or more orders, and report who waits how long in each.

    At most 50,000 documents and a minute. Disconnect to end it.
    """
    if body.scenario not in _scenarios_by_name():
        raise InvalidInputError(f"there is no scenario {body.scenario!r}; known are {', '.join(_scenarios_by_name())}")
    if len(set(body.orders)) < len(body.orders):
        raise InvalidInputError("name each order once")
    jobs = scope.app_state.simulation_jobs
    _require_capacity(jobs)
    return NdjsonResponse(jobs.simulate(body.model_dump()))


@router.post(
    "/replays",
    operation_id="runReplay",
    tags=["simulations"],
    response_class=NdjsonResponse,
    responses=_job_responses("the `comparison`"),
)
async def replay(body: schemas.Replay, scope: ReadScope, _: OperatorAccess) -> NdjsonResponse:
    """Operators: replay the documents of a time as they were, and with another order, sharing or other workers.

    At most 50,000 documents, the newest of that time, and a minute. Disconnect to end it.
    """
    since = max(0, scope.app_state.clock.now() - DAY) if body.since is None else body.since
    if body.until is not None and body.until <= since:
        raise InvalidInputError("`until` must be later than `since`")
    plan = body.model_dump(include={"order", "charge", "max_share", "workers"})
    return NdjsonResponse(_history_jobs(scope).replay(plan, since, body.until))


@router.post(
    "/policy/preview",
    operation_id="previewPolicy",
    tags=["policy"],
    response_class=NdjsonResponse,
    responses=_job_responses("the `comparison`"),
)
def preview(body: schemas.PolicyPreview, scope: ReadScope, _: OperatorAccess) -> NdjsonResponse:
    """Operators: compare who would have waited less, and who more, had this policy been in force.

    Replays the documents since then, at most 50,000, through the simulator. Disconnect to end it.
    """
    policy = parse_policy(body.policy, scope.app_state.queue.policy().policy)
    since = max(0, scope.app_state.clock.now() - DAY) if body.since is None else body.since
    return NdjsonResponse(_history_jobs(scope).preview_policy(policy, since))


@router.post(
    "/policy/versions/{version}/judgement",
    operation_id="evaluatePolicyVersion",
    tags=["policy"],
    response_class=NdjsonResponse,
    responses=_job_responses("the `judgement`"),
)
def evaluate(
    version: Annotated[int, Path(ge=1, le=MAX_VERSION)], scope: ReadScope, _: OperatorAccess
) -> NdjsonResponse:
    """Operators: evaluate whether this version changed the waits of each group of customers as expected.

    Replays the documents of the day before it under the policy of then and under this one: that is the expectation.
    Replays those that came while it was in force under the policy before it, and compares that with the real waits.
    At most 50,000 documents each, and a minute. Disconnect to end it.
    """
    find_policy_change(scope.app_state.queue, version)
    return NdjsonResponse(_history_jobs(scope).evaluate_version(version, scope.app_state.clock.now()))


def _history_jobs(scope: ReadScope) -> SimulationJobs:
    jobs = scope.app_state.simulation_jobs
    jobs.require_readable_history()
    _require_capacity(jobs)
    return jobs


def _require_capacity(jobs: SimulationJobs) -> None:
    if not jobs.has_capacity:
        raise TooManyError(
            f"{MAX_CONCURRENT_JOBS} computations are under way at this server; try again in a moment",
            JOB_RETRY_AFTER_SECONDS,
        )


@cache
def _scenarios_by_name() -> dict[str, Scenario]:
    return built_in_scenarios()


def _serialize_scenario(scenario: Scenario) -> schemas.Scenario:
    groups = [schemas.ScenarioGroup(group=group.name, customers=group.customers) for group in scenario.groups]
    return schemas.Scenario(scenario=scenario.name, title=scenario.title, workers=scenario.workers, groups=groups)
