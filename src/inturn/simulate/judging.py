"""Whether a change of the policy came true: what was to be expected of it, and what happened since."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from inturn.errors import InvalidInputError, NotFoundError
from inturn.simulate.compare import SMALLEST_CHANGE, Comparison, Waits, compare, rounded
from inturn.simulate.history import DAY, GROUPS, LEAD, Progress, read_history
from inturn.simulate.replay import Plan
from inturn.store import PolicyVersion, Store

NEARLY: Final = 0.1
"""A change of the mean wait by a smaller part than this is none."""


class Way(StrEnum):
    """Where a group's mean wait goes."""

    SHORTER = "shorter"
    SAME = "same"
    """About as long: nobody would notice."""
    LONGER = "longer"


class Verdict(StrEnum):
    """What became of a prediction."""

    CAME_TRUE = "came_true"
    DID_NOT = "did_not"
    UNKNOWN = "unknown"
    """No documents before the change, or none since."""


@dataclass(frozen=True, slots=True)
class GroupJudgement:
    """A group of customers; waits are seconds, None where there were no documents."""

    group: str
    expected_without: Waits | None
    """Documents from before the change, under the policy of then."""
    expected_with: Waits | None
    """The same documents under the new policy: what a preview told."""
    without: Waits | None
    """Documents since the change, played under the old policy: what they would have waited without it."""
    observed: Waits | None
    """What documents since the change really waited."""
    expected: Way | None
    """From `expected_without` to `expected_with`."""
    happened: Way | None
    """From `without` to `observed`."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Judgement:
    """A change of the policy, judged by the documents since."""

    version: int
    at: int
    until: int
    documents_before: int
    documents_since: int
    is_cut: bool
    """There were more documents, before or since, than were played: the oldest were left out."""
    groups: tuple[GroupJudgement, ...]

    def plain(self) -> dict[str, Any]:
        """As JSON knows it."""
        found: dict[str, Any] = rounded(asdict(self))
        return found


class PolicyStep(NamedTuple):
    """A version of the policy, the one before it, and when the next one came."""

    before: PolicyVersion
    changed: PolicyVersion
    until: int | None


def step_to(store: Store, version: int | None = None) -> PolicyStep:
    """The step to a version, the newest unless said; an error if there is none to judge."""
    versions = {each.number: each for each in store.policies()}
    number = max(versions) if version is None else version
    if number not in versions:
        raise NotFoundError(f"there is no version {number} of the policy; `inturn policy history` lists them")
    if number - 1 not in versions:
        raise InvalidInputError("the first policy changed nothing: there is nothing to judge")
    until = versions[number + 1].at if number + 1 in versions else None
    return PolicyStep(versions[number - 1], versions[number], until)


def judge(
    store: Store, version: int | None = None, *, now: int, most: int, progress: Progress | None = None
) -> Judgement:
    """Judge a version of the policy, the newest unless said, by the day before it and all documents since."""
    before, changed, next_at = step_to(store, version)
    until = now if next_at is None else next_at
    plans = Plan(before.policy), Plan(changed.policy)
    tell = progress or (lambda _done, _total: None)
    earlier = _compared(store, (changed.at - DAY, changed.at), most, plans, lambda done, of: tell(done, 2 * of))
    since = _compared(store, (changed.at, until), most, plans, lambda done, of: tell(of + done, 2 * of))
    return _judged(changed, until, earlier, since)


def _compared(
    store: Store, span: tuple[int, int], most: int, plans: tuple[Plan, Plan], progress: Progress
) -> Comparison | None:
    """None if nothing was processed in that time."""
    try:
        history = read_history(store, span[0], until=span[1], lead=min(LEAD, span[0]), most=most, progress=progress)
    except InvalidInputError:
        return None
    return compare(history, *plans, progress)


def _judged(changed: PolicyVersion, until: int, earlier: Comparison | None, since: Comparison | None) -> Judgement:
    expected = {each.group: each for each in earlier.groups} if earlier else {}
    found = {each.group: each for each in since.groups} if since else {}
    groups = []
    for name in (each for each in GROUPS if each in expected or each in found):
        old, new = expected.get(name), found.get(name)
        waits = (
            old.current if old else None,
            old.proposed if old else None,
            new.current if new else None,
            new.measured if new else None,
        )
        ways = _way(*waits[:2]), _way(*waits[2:])
        groups.append(GroupJudgement(name, *waits, *ways, _verdict(*ways)))
    parts = [each for each in (earlier, since) if each]
    documents = (earlier.documents if earlier else 0, since.documents if since else 0)
    is_cut = any(each.is_cut for each in parts)
    return Judgement(changed.number, changed.at, until, *documents, is_cut, tuple(groups))


def _verdict(expected: Way | None, happened: Way | None) -> Verdict:
    """It came true if waits went the way they were expected to go."""
    if expected is None or happened is None:
        return Verdict.UNKNOWN
    return Verdict.CAME_TRUE if expected is happened else Verdict.DID_NOT


def _way(before: Waits | None, after: Waits | None) -> Way | None:
    if before is None or after is None:
        return None
    change = after.mean - before.mean
    if abs(change) < max(SMALLEST_CHANGE, NEARLY * before.mean):
        return Way.SAME
    return Way.LONGER if change > 0 else Way.SHORTER
