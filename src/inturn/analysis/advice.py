"""Recommend a number of workers and a policy that meet a goal, by replaying history. Changes nothing."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from inturn.analysis.compare import Contradiction, find_contradictions, rounded
from inturn.analysis.goals import Goal
from inturn.analysis.history import History, ProgressCallback, renumbered
from inturn.analysis.replay import Plan, replay, waits_of, without_warmup
from inturn.analysis.scenario import MAX_WORKERS
from inturn.policy import Order, Policy
from inturn.values import SECOND

MAX_SAMPLE_DOCUMENTS: Final = 20_000
"""Documents replayed per trial; a sweep has about forty trials."""
WARMUP_DIVISOR: Final = 10
"""The first 1/N of a sample warms the queue up and is not counted."""
CURVE_FACTORS: Final = (0.5, 0.75, 1.25, 1.5, 2.0)
"""Further numbers of workers for the curve, as factors of the smallest number that meets the goal."""
EXPECTED_RUNS: Final = 40


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial: what was changed, and the goal's figure in seconds for the goal's customers and for all others."""

    workers: int
    setting: str | None
    """The one setting that was changed; None is the policy in force."""
    value: Any
    """Its value, as in `Policy.to_dict`."""
    meant: float
    others: float | None
    is_met: bool
    policy: Policy


@dataclass(frozen=True, slots=True)
class Advice:
    """The result of a sweep."""

    goal: Goal
    documents: int
    sampled: int
    """Documents replayed and counted: the busiest span, if there were too many."""
    since: int
    until: int
    workers: int
    """Measured or given number of workers."""
    now: Trial
    """The trial with that many workers under the policy in force."""
    smallest: Trial | None
    """The smallest number of workers that meets the goal under the policy in force; None if none does."""
    best: Trial | None
    """The best trial, by workers, then by the goal's figure; None if no trial meets the goal."""
    trials: tuple[Trial, ...]
    contradictions: tuple[Contradiction, ...] = ()
    """Groups for which an unchanged replay contradicts the measurement; do not trust the advice there."""

    @property
    def is_sample(self) -> bool:
        """Whether only a sample was replayed."""
        return self.sampled < self.documents

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        result: dict[str, Any] = rounded(
            {
                "goal": self.goal.text,
                "documents": self.documents,
                "sampled": self.sampled,
                "since": self.since,
                "until": self.until,
                "workers": self.workers,
                **{name: _trial_dict(getattr(self, name)) for name in ("now", "smallest", "best")},
                "trials": [_trial_dict(trial) for trial in self.trials],
                "contradictions": self.contradictions,
            }
        )
        return result


def _trial_dict(trial: Trial | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    stored = {name: getattr(trial, name) for name in ("workers", "setting", "value", "meant", "others", "is_met")}
    return {**stored, "policy": trial.policy.to_dict()}


def advise(history: History, base: Plan, goal: Goal, progress: ProgressCallback | None = None) -> Advice:
    """Sweep workers, reset interval, thresholds and overdue slot, starting from a plan with a policy."""
    policy, workers = base.policy or Policy(), base.workers or history.workers
    sweep = _Sweep(history, replace(base, policy=policy), goal, progress)
    now = sweep.run_trial(workers, policy)
    smallest = sweep.find_fewest_workers(policy, now)
    if smallest is not None:
        for part in CURVE_FACTORS:
            sweep.run_trial(max(1, round(smallest.workers * part)), policy)
    best = sweep.find_best(policy, smallest or now)
    counts = sweep.history.without_warmup().arrivals
    contradictions = find_contradictions(
        sweep.history.without_warmup(), without_warmup(sweep.history, replay(sweep.history))
    )
    sweep.finish()
    return Advice(
        goal,
        len(history.arrivals) - history.warmup_documents,
        len(counts),
        counts[0].at,
        counts[-1].at,
        workers,
        now,
        smallest,
        best,
        tuple(sweep.trials.values()),
        contradictions,
    )


class _Sweep:
    """Trials made so far; none is made twice."""

    def __init__(self, history: History, base: Plan, goal: Goal, progress: ProgressCallback | None) -> None:
        self.history, self._base = busiest_span(history), base
        self.trials: dict[tuple[int, Policy], Trial] = {}
        self._per_day, self._goal, self._progress = history.per_day(), goal, progress

    def run_trial(self, workers: int, policy: Policy, setting: str | None = None) -> Trial:
        """Run one trial, or return it if it was made before."""
        known = self.trials.get((workers, policy))
        if known is not None:
            return known
        done = len(self.trials)
        plan = replace(self._base, policy=policy, workers=workers)
        played = without_warmup(self.history, replay(self.history, plan, self._trial_progress(done)))
        waits: dict[str, list[float]] = defaultdict(list)
        arrivals = self.history.without_warmup().arrivals
        for arrival, wait in zip(arrivals, waits_of(played, range(len(arrivals))), strict=True):
            waits[arrival.customer].append(wait)
        meant = self._goal.value(waits, self._per_day)
        others = self._goal.value_of_others(waits, self._per_day)
        value = None if setting is None else policy.to_dict()[setting]
        trial = Trial(workers, setting, value, meant, others, meant <= self._goal.seconds, policy)
        self.trials[workers, policy] = trial
        return trial

    def find_fewest_workers(self, policy: Policy, now: Trial, setting: str | None = None) -> Trial | None:
        """Find the smallest number of workers that meets the goal by bisection."""
        best, least = (now, 0) if now.is_met else (None, now.workers)
        most = now.workers
        while best is None and most < min(MAX_WORKERS, 16 * now.workers):
            least, most = most, min(MAX_WORKERS, 2 * most)
            trial = self.run_trial(most, policy, setting)
            best = trial if trial.is_met else None
        while best is not None and best.workers - least > 1:
            trial = self.run_trial((best.workers + least) // 2, policy, setting)
            best, least = (trial, least) if trial.is_met else (best, trial.workers)
        return best

    def find_best(self, policy: Policy, reference: Trial) -> Trial | None:
        """Try each setting alone, with the reference's workers and with one worker less; return the best trial."""
        for setting, changed in policy_variants(policy):
            trial = self.run_trial(reference.workers, changed, setting)
            if trial.is_met and reference.workers > 1:
                fewer = self.run_trial(reference.workers - 1, changed, setting)
                if fewer.is_met:
                    self.find_fewest_workers(changed, fewer, setting)
        met = [trial for trial in self.trials.values() if trial.is_met]
        return min(met, key=lambda trial: (trial.workers, trial.setting is not None, trial.meant), default=None)

    def finish(self) -> None:
        """Report completion, however many trials it took."""
        if self._progress is not None:
            self._progress(1, 1)

    def _trial_progress(self, done: int) -> ProgressCallback | None:
        tell = self._progress
        if tell is None:
            return None
        runs = max(EXPECTED_RUNS, done + 5)
        return lambda now, total: tell(done * total + now, runs * total)


def policy_variants(policy: Policy) -> Iterator[tuple[str, Policy]]:
    """Yield the policy with one setting changed, and which."""
    priority, turns = policy.priority, policy.turns
    for part in (0.5, 2, 4):
        interval = max(SECOND, round(priority.reset_interval * part))
        yield "reset_interval", replace(policy, priority=replace(priority, reset_interval=interval))
    for part in (0.5, 2):
        thresholds = _scaled_thresholds(priority.thresholds, part)
        yield "thresholds", replace(policy, priority=replace(priority, thresholds=thresholds))
    if turns.order is Order.CLASSIC:
        yield "order", replace(policy, turns=replace(turns, order=Order.FAIR))
        return
    for part in (0.5, 2):
        after = max(SECOND, round(turns.overdue_after * part))
        yield "overdue_after", replace(policy, turns=replace(turns, overdue_after=after))
    for every in (max(2, turns.overdue_every // 2), turns.overdue_every * 2):
        yield "overdue_every", replace(policy, turns=replace(turns, overdue_every=every))


def _scaled_thresholds(thresholds: Sequence[int], part: float) -> tuple[int, ...]:
    """Scale the width of levels; each stays at least one document wide."""
    result: list[int] = []
    for threshold in thresholds:
        highest = result[-1] - 1 if result else -1
        result.append(min(highest, round(threshold * part)))
    return tuple(result)


def busiest_span(history: History, max_documents: int = MAX_SAMPLE_DOCUMENTS) -> History:
    """Return the span of N documents in which work arrived fastest."""
    arrivals = history.arrivals
    lead, counts = max_documents // WARMUP_DIVISOR, len(arrivals) - history.warmup_documents
    if counts <= max_documents:
        return history
    work = [0, *accumulate(arrival.service for arrival in arrivals)]
    starts = range(history.warmup_documents, len(arrivals) - max_documents + 1, max(1, max_documents // WARMUP_DIVISOR))
    begin = max(
        starts,
        key=lambda at: (
            (work[at + max_documents] - work[at]) / max(1, arrivals[at + max_documents - 1].at - arrivals[at].at)
        ),
    )
    first = max(0, begin - lead)
    stored = slice(first, begin + max_documents)
    return replace(
        history,
        arrivals=renumbered(arrivals[stored], first) if history.has_steps else arrivals[stored],
        waits=history.waits[stored],
        finished=history.finished[stored],
        levels=history.levels[stored],
        warmup_documents=begin - first,
    )
