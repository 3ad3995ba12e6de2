"""`/v1/policy`: thresholds, order, overdue slot, costs. For operators; `/v1/priority` is for all."""

from typing import Annotated, Final

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse

from inturn.errors import InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorsEyes
from inturn.http.errors import Answers
from inturn.http.jobs import MEDIA, lines_of
from inturn.http.scoped import ByHand, Seen
from inturn.http.views import policy_view
from inturn.policy import Policy
from inturn.simulate.history import DAY
from inturn.simulate.judging import step_to

router: Final = APIRouter(prefix="/v1", tags=["policy"])
MOST_VERSIONS: Final = 2**62


@router.get("/priority", operation_id="getPriorityRules", responses=Answers.of())
def priority(seen: Seen) -> schemas.Priority:
    """The reset interval and the thresholds in force. No secret: they explain everybody's receipts."""
    found = seen.service.queue.policy().policy.priority
    return schemas.Priority(reset_interval=found.reset_interval, thresholds=list(found.thresholds))


@router.get("/policy", operation_id="getPolicy", responses=Answers.of())
def policy(seen: Seen, _: OperatorsEyes) -> schemas.PolicyVersion:
    """Operators: the policy in force."""
    return policy_view(seen.service.queue.policy())


@router.get("/policy/versions", operation_id="listPolicyVersions", responses=Answers.of())
def versions(seen: Seen, _: OperatorsEyes) -> schemas.PolicyVersions:
    """Operators: all versions of the policy, newest first."""
    return schemas.PolicyVersions(versions=[policy_view(each) for each in seen.service.queue.store.policies()])


@router.put("/policy", operation_id="setPolicy", responses=Answers.of(409, 413, 422))
def set_policy(given: schemas.PolicyChange, by_hand: ByHand, _: OperatorsEyes) -> schemas.PolicyVersion:
    """Operators: put a policy in force. Levels hold for new checks, the order for what already waits."""
    wanted = policy_of(given.policy)
    return policy_view(by_hand.service.queue.set_policy(wanted, by_hand.operator, expected=given.expected))


@router.post(
    "/policy/preview",
    operation_id="previewPolicy",
    response_class=StreamingResponse,
    responses=Answers.of(422) | lines_of("the `comparison`"),
)
async def preview(given: schemas.PolicyPreview, seen: Seen, _: OperatorsEyes) -> StreamingResponse:
    """Operators: who would have waited less, and who more, had this policy been in force.

    Plays the documents that came in since then, at most 50,000, through the simulator. Hang up to end it.
    """
    wanted, service = policy_of(given.policy), seen.service
    service.previews.check_room()
    since = max(0, service.clock.now() - DAY) if given.since is None else given.since
    return StreamingResponse(service.previews.told(wanted, since), media_type=MEDIA)


@router.post(
    "/policy/versions/{version}/judgement",
    operation_id="evaluatePolicyVersion",
    response_class=StreamingResponse,
    responses=Answers.of(422) | lines_of("the `judgement`"),
)
def judgement(version: Annotated[int, Path(ge=1, le=MOST_VERSIONS)], seen: Seen, _: OperatorsEyes) -> StreamingResponse:
    """Operators: whether this version did to each group of customers what was to be expected of it.

    Plays the documents of the day before it under the policy of then and under this one, which is what was to be
    expected; and those that came while it was in force under the policy before it, which is compared with what they
    really waited. At most 50,000 documents each, and a minute. Hang up to end it.
    """
    service = seen.service
    step_to(service.queue.store, version)
    service.previews.check_room()
    return StreamingResponse(service.previews.judged(version, service.clock.now()), media_type=MEDIA)


def policy_of(given: schemas.Policy) -> Policy:
    """A policy as it was given, or an error that says what is wrong with it."""
    try:
        return Policy.of(given.model_dump())
    except (TypeError, OverflowError) as wrong:
        raise InvalidInputError(f"the policy is not valid: {wrong}") from wrong
