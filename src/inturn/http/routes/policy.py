"""`/v1/policy`: thresholds, order, overdue slot, costs. For operators; `/v1/priority` is for all."""

from typing import Annotated, Final

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse

from inturn.analysis.history import DAY
from inturn.analysis.policy_evaluation import find_policy_change
from inturn.errors import InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.scope import ReadScope, WriteScope
from inturn.http.serializers import serialize_policy_version
from inturn.http.simulation_jobs import NDJSON_MEDIA_TYPE, ndjson_response
from inturn.policy import Policy

router: Final = APIRouter(prefix="/v1", tags=["policy"])
MAX_VERSION: Final = 2**62


@router.get("/priority", operation_id="getPriorityRules", responses=ErrorResponses.of())
def priority(scope: ReadScope) -> schemas.Priority:
    """The reset interval and the thresholds in force. No secret: they explain everybody's receipts."""
    priority_policy = scope.app_state.queue.policy().policy.priority
    return schemas.Priority(reset_interval=priority_policy.reset_interval, thresholds=list(priority_policy.thresholds))


@router.get("/policy", operation_id="getPolicy", responses=ErrorResponses.of())
def policy(scope: ReadScope, _: OperatorAccess) -> schemas.PolicyVersion:
    """Operators: the policy in force."""
    return serialize_policy_version(scope.app_state.queue.policy())


@router.get("/policy/versions", operation_id="listPolicyVersions", responses=ErrorResponses.of())
def versions(scope: ReadScope, _: OperatorAccess) -> schemas.PolicyVersions:
    """Operators: all versions of the policy, newest first."""
    return schemas.PolicyVersions(
        versions=[serialize_policy_version(policy) for policy in scope.app_state.queue.store.policies()]
    )


@router.put("/policy", operation_id="setPolicy", responses=ErrorResponses.of(409, 413, 422))
def set_policy(body: schemas.PolicyChange, scope: WriteScope, _: OperatorAccess) -> schemas.PolicyVersion:
    """Operators: put a policy in force. Levels hold for new checks, the order for what already waits."""
    wanted = parse_policy(body.policy)
    return serialize_policy_version(scope.app_state.queue.set_policy(wanted, scope.operator, expected=body.expected))


@router.post(
    "/policy/preview",
    operation_id="previewPolicy",
    response_class=StreamingResponse,
    responses=ErrorResponses.of(422) | ndjson_response("the `comparison`"),
)
async def preview(body: schemas.PolicyPreview, scope: ReadScope, _: OperatorAccess) -> StreamingResponse:
    """Operators: who would have waited less, and who more, had this policy been in force.

    Plays the documents that came in since then, at most 50,000, through the simulator. Hang up to end it.
    """
    wanted, service = parse_policy(body.policy), scope.app_state
    service.replay_jobs.require_capacity()
    since = max(0, service.clock.now() - DAY) if body.since is None else body.since
    return StreamingResponse(service.replay_jobs.preview_policy(wanted, since), media_type=NDJSON_MEDIA_TYPE)


@router.post(
    "/policy/versions/{version}/judgement",
    operation_id="evaluatePolicyVersion",
    response_class=StreamingResponse,
    responses=ErrorResponses.of(422) | ndjson_response("the `judgement`"),
)
def evaluate(
    version: Annotated[int, Path(ge=1, le=MAX_VERSION)], scope: ReadScope, _: OperatorAccess
) -> StreamingResponse:
    """Operators: whether this version did to each group of customers what was to be expected of it.

    Plays the documents of the day before it under the policy of then and under this one, which is what was to be
    expected; and those that came while it was in force under the policy before it, which is compared with what they
    really waited. At most 50,000 documents each, and a minute. Hang up to end it.
    """
    service = scope.app_state
    find_policy_change(service.queue.store, version)
    service.replay_jobs.require_capacity()
    return StreamingResponse(
        service.replay_jobs.evaluate_version(version, service.clock.now()), media_type=NDJSON_MEDIA_TYPE
    )


def parse_policy(spec: schemas.Policy) -> Policy:
    """A policy as it was given, or an error that says what is wrong with it."""
    try:
        return Policy.from_dict(spec.model_dump())
    except (TypeError, OverflowError) as error:
        raise InvalidInputError(f"the policy is not valid: {error}") from error
