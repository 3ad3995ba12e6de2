"""Evaluate a policy change: what a preview predicted, and what was measured since."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from inturn.analysis.compare import MIN_CHANGE_SECONDS, Comparison, Waits, compare, rounded
from inturn.analysis.history import DAY, SIZE_GROUPS, WARMUP_DURATION, ProgressCallback
from inturn.analysis.history_reader import read_history
from inturn.analysis.replay import Plan
from inturn.errors import InvalidInputError, NotFoundError
from inturn.queue_reader import QueueReader
from inturn.store_types import PolicyVersion

MIN_RELATIVE_CHANGE: Final = 0.1
"""A change of the mean wait by a smaller part than this is none."""


class Trend(StrEnum):
    """Where a group's mean wait goes."""

    SHORTER = "shorter"
    SAME = "same"
    """No noticeable change."""
    LONGER = "longer"


class PredictionResult(StrEnum):
    """What became of a prediction."""

    CONFIRMED = "came_true"
    REFUTED = "did_not"
    UNKNOWN = "unknown"
    """No documents before the change, or none since."""


@dataclass(frozen=True, slots=True)
class GroupEvaluation:
    """A group of customers; waits are seconds, None where there were no documents."""

    group: str
    expected_without: Waits | None
    """Documents from before the change, under the policy of then."""
    expected_with: Waits | None
    """The same documents under the new policy: the preview's prediction."""
    without: Waits | None
    """Documents since the change, played under the old policy: what they would have waited without it."""
    observed: Waits | None
    """What documents since the change really waited."""
    expected: Trend | None
    """From `expected_without` to `expected_with`."""
    happened: Trend | None
    """From `without` to `observed`."""
    verdict: PredictionResult


@dataclass(frozen=True, slots=True)
class PolicyEvaluation:
    """A change of the policy, judged by the documents since."""

    version: int
    at: int
    until: int
    documents_before: int
    documents_since: int
    is_cut: bool
    """There were more documents, before or since, than were played: the oldest were left out."""
    groups: tuple[GroupEvaluation, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        result: dict[str, Any] = rounded(asdict(self))
        return result


class PolicyChange(NamedTuple):
    """A version of the policy, the one before it, and when the next one came."""

    before: PolicyVersion
    changed: PolicyVersion
    until: int | None


def find_policy_change(queue: QueueReader, version: int | None = None) -> PolicyChange:
    """The step to a version, the newest unless said; an error if there is none to judge."""
    versions = {policy.number: policy for policy in queue.policies()}
    number = max(versions) if version is None else version
    if number not in versions:
        raise NotFoundError(f"there is no version {number} of the policy; `inturn policy history` lists them")
    if number - 1 not in versions:
        raise InvalidInputError("the first policy changed nothing: there is nothing to judge")
    until = versions[number + 1].at if number + 1 in versions else None
    return PolicyChange(versions[number - 1], versions[number], until)


def evaluate_policy(
    queue: QueueReader,
    version: int | None = None,
    *,
    now: int,
    max_documents: int,
    progress: ProgressCallback | None = None,
) -> PolicyEvaluation:
    """Judge a version of the policy, the newest unless said, by the day before it and all documents since."""
    before, changed, next_at = find_policy_change(queue, version)
    until = now if next_at is None else next_at
    plans = Plan(before.policy), Plan(changed.policy)
    tell = progress or (lambda _done, _total: None)
    earlier = _compare_span(
        queue, (changed.at - DAY, changed.at), max_documents, plans, lambda done, of: tell(done, 2 * of)
    )
    since = _compare_span(queue, (changed.at, until), max_documents, plans, lambda done, of: tell(of + done, 2 * of))
    return _build_evaluation(changed, until, earlier, since)


def _compare_span(
    queue: QueueReader, span: tuple[int, int], max_documents: int, plans: tuple[Plan, Plan], progress: ProgressCallback
) -> Comparison | None:
    """None if nothing was processed in that time."""
    try:
        history = read_history(
            queue,
            span[0],
            until=span[1],
            warmup=min(WARMUP_DURATION, span[0]),
            max_documents=max_documents,
            progress=progress,
        )
    except InvalidInputError:
        return None
    return compare(history, *plans, progress)


def _build_evaluation(
    changed: PolicyVersion, until: int, earlier: Comparison | None, since: Comparison | None
) -> PolicyEvaluation:
    expected = {group.group: group for group in earlier.groups} if earlier else {}
    result = {group.group: group for group in since.groups} if since else {}
    groups = []
    for name in (size_group for size_group in SIZE_GROUPS if size_group in expected or size_group in result):
        old, new = expected.get(name), result.get(name)
        waits = (
            old.current if old else None,
            old.proposed if old else None,
            new.current if new else None,
            new.measured if new else None,
        )
        ways = trend(*waits[:2]), trend(*waits[2:])
        groups.append(GroupEvaluation(name, *waits, *ways, prediction_result(*ways)))
    parts = [comparison for comparison in (earlier, since) if comparison]
    documents = (earlier.documents if earlier else 0, since.documents if since else 0)
    is_cut = any(part.is_cut for part in parts)
    return PolicyEvaluation(changed.number, changed.at, until, *documents, is_cut, tuple(groups))


def prediction_result(expected: Trend | None, happened: Trend | None) -> PredictionResult:
    """It came true if waits went the way they were expected to go."""
    if expected is None or happened is None:
        return PredictionResult.UNKNOWN
    return PredictionResult.CONFIRMED if expected is happened else PredictionResult.REFUTED


def trend(before: Waits | None, after: Waits | None) -> Trend | None:
    """Return which way the mean wait went; a small change is none."""
    if before is None or after is None:
        return None
    change = after.mean - before.mean
    if abs(change) < max(MIN_CHANGE_SECONDS, MIN_RELATIVE_CHANGE * before.mean):
        return Trend.SAME
    return Trend.LONGER if change > 0 else Trend.SHORTER
