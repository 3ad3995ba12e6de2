"""Serve `/v1/policy` to operators and `/v1/priority` to all callers."""

from typing import Final

from fastapi import APIRouter

from inturn.errors import InvalidInputError
from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.scope import ReadScope, WriteScope
from inturn.http.serializers import serialize_policy_version
from inturn.policy import Policy

router: Final = APIRouter(prefix="/v1", tags=["policy"])


@router.get("/priority", operation_id="getPriorityRules", responses=ErrorResponses.of())
def priority(scope: ReadScope) -> schemas.Priority:
    """The reset interval and the thresholds in force: they explain the levels on every customer's receipts."""
    priority_policy = scope.app_state.queue.policy().policy.priority
    return schemas.Priority(reset_interval=priority_policy.reset_interval, thresholds=list(priority_policy.thresholds))


@router.get("/policy", operation_id="getPolicy", responses=ErrorResponses.of())
def policy(scope: ReadScope, _: OperatorAccess) -> schemas.PolicyVersion:
    """Operators: the active policy."""
    return serialize_policy_version(scope.app_state.queue.policy())


@router.get("/policy/versions", operation_id="listPolicyVersions", responses=ErrorResponses.of())
def versions(scope: ReadScope, _: OperatorAccess) -> schemas.PolicyVersions:
    """Operators: all versions of the policy, newest first."""
    return schemas.PolicyVersions(
        versions=[serialize_policy_version(policy) for policy in scope.app_state.queue.policies()]
    )


@router.put("/policy", operation_id="setPolicy", responses=ErrorResponses.of(409, 413, 422))
def set_policy(body: schemas.PolicyChange, scope: WriteScope, _: OperatorAccess) -> schemas.PolicyVersion:
    """Operators: put a policy in force. Levels hold for new checks, the order for what already waits.

    `charge`, `max_share`, `share_idle_after` and `check_each_step` keep the value in force if they are left out.
    """
    queue = scope.app_state.queue
    current = queue.policy()
    policy = parse_policy(body.policy, current.policy)
    # What the request leaves out was read from the current version, so that version must still be in force.
    keeps_settings = None in body.policy.model_dump().values()
    expected = current.number if body.expected is None and keeps_settings else body.expected
    return serialize_policy_version(queue.set_policy(policy, scope.operator, expected=expected))


def parse_policy(spec: schemas.PolicyInput, current: Policy) -> Policy:
    """Parse a policy of a request, with settings of the current one where it names none; refuse an invalid one."""
    try:
        return Policy.from_dict(current.to_dict() | spec.model_dump(exclude_none=True))
    except (TypeError, OverflowError) as error:
        raise InvalidInputError(f"the policy is not valid: {error}") from error
