"""Whether a change of the policy came true: what was to be expected of it, and what happened since."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from inturn.errors import InvalidInputError, NotFoundError
from inturn.simulate.compare import SMALLEST_CHANGE, Comparison, Waits, compare, rounded
from inturn.simulate.history import DAY, GROUPS, LEAD, Progress, read_history
from inturn.simulate.replay import Plan
from inturn.store import PolicyVersion, Store

NEARLY: Final = 0.1
"""A change of the mean wait by a smaller part than this is none."""


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
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Judgement:
    """A change of the policy, judged by the documents since."""

    version: int
    at: int
    until: int
    documents_before: int
    documents_since: int
    groups: tuple[GroupJudgement, ...]

    def plain(self) -> dict[str, Any]:
        """As JSON knows it."""
        found: dict[str, Any] = rounded(asdict(self))
        return found


def judge(
    store: Store, version: int | None = None, *, now: int, most: int, progress: Progress | None = None
) -> Judgement:
    """Judge a version of the policy, the newest unless said, by the day before it and all documents since."""
    versions = {each.number: each for each in store.policies()}
    number = max(versions) if version is None else version
    if number not in versions:
        raise NotFoundError(f"there is no version {number} of the policy; `inturn policy history` lists them")
    changed, before = versions[number], versions.get(number - 1)
    if before is None:
        raise InvalidInputError("the first policy changed nothing: there is nothing to judge yet")
    until = versions[number + 1].at if number + 1 in versions else now
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
        history = read_history(store, span[0], until=span[1], lead=LEAD, most=most)
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
        groups.append(GroupJudgement(name, *waits, _verdict(*waits)))
    documents = (earlier.documents if earlier else 0, since.documents if since else 0)
    return Judgement(changed.number, changed.at, until, *documents, tuple(groups))


def _verdict(
    expected_without: Waits | None, expected_with: Waits | None, without: Waits | None, observed: Waits | None
) -> Verdict:
    """It came true if waits went the way they were expected to go."""
    if expected_without is None or expected_with is None or without is None or observed is None:
        return Verdict.UNKNOWN
    expected, real = _way(expected_without.mean, expected_with.mean), _way(without.mean, observed.mean)
    return Verdict.CAME_TRUE if expected == real else Verdict.DID_NOT


def _way(before: float, after: float) -> int:
    """1 is a longer wait, -1 a shorter one, 0 about the same."""
    change = after - before
    if abs(change) < max(SMALLEST_CHANGE, NEARLY * before):
        return 0
    return 1 if change > 0 else -1
