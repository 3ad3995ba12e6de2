"""How many workers does a goal take, and would another policy do with fewer? It recommends and changes nothing."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from inturn.analysis.compare import Contradiction, find_contradictions, rounded
from inturn.analysis.goals import Goal
from inturn.analysis.history import History, ProgressCallback
from inturn.analysis.replay import Plan, replay, without_warmup
from inturn.analysis.scenario import MAX_WORKERS
from inturn.model import SECOND
from inturn.policy import Order, Policy

MAX_SAMPLE_DOCUMENTS: Final = 20_000
"""Documents of one run: a sweep takes some forty of them."""
WARMUP_DIVISOR: Final = 10
"""One part in so many of a sample is played first and not counted, so that it does not begin with an empty queue."""
CURVE_FACTORS: Final = (0.5, 0.75, 1.25, 1.5, 2.0)
"""Workers to look at besides, as parts of the smallest number that meets the goal: the curve."""
EXPECTED_RUNS: Final = 40


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a sweep: what was tried, and the goal's figure for those meant and for all others, in seconds."""

    workers: int
    setting: str | None
    """The one setting that was changed; None is the policy in force."""
    value: Any
    """What it was set to, as in `Policy.plain`."""
    meant: float
    others: float | None
    is_met: bool
    policy: Policy


@dataclass(frozen=True, slots=True)
class Advice:
    """What a sweep found."""

    goal: Goal
    documents: int
    sampled: int
    """Documents that were played and counted: the busiest stretch, if there were too many."""
    since: int
    until: int
    workers: int
    """Documents that ran at a time, or were said to."""
    now: Trial
    """With as many workers, under the policy in force."""
    smallest: Trial | None
    """The smallest number of workers that meets the goal under the policy in force; None if none does."""
    best: Trial | None
    """The best that was found, by workers, then by what it is for those meant; None if nothing meets the goal."""
    trials: tuple[Trial, ...]
    contradictions: tuple[Contradiction, ...] = ()
    """Where a replay of the sample as it was contradicts what was measured: do not trust the advice there."""

    @property
    def is_sample(self) -> bool:
        """Not everything was played."""
        return self.sampled < self.documents

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it."""
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
    """Sweep workers, reset interval, thresholds and overdue slot, from a plan that says the policy on."""
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
    """The runs made so far; none is made twice."""

    def __init__(self, history: History, base: Plan, goal: Goal, progress: ProgressCallback | None) -> None:
        self.history, self._base = busiest_span(history), base
        self.trials: dict[tuple[int, Policy], Trial] = {}
        self._per_day, self._goal, self._progress = history.per_day(), goal, progress

    def run_trial(self, workers: int, policy: Policy, setting: str | None = None) -> Trial:
        """One run."""
        known = self.trials.get((workers, policy))
        if known is not None:
            return known
        done = len(self.trials)
        plan = replace(self._base, policy=policy, workers=workers)
        played = without_warmup(self.history, replay(self.history, plan, self._trial_progress(done)))
        waits: dict[str, list[float]] = defaultdict(list)
        for arrival, started in zip(self.history.without_warmup().arrivals, played.started, strict=True):
            waits[arrival.customer].append((started - arrival.at) / SECOND)
        meant = self._goal.value(waits, self._per_day)
        others = self._goal.value_of_others(waits, self._per_day)
        value = None if setting is None else policy.to_dict()[setting]
        trial = Trial(workers, setting, value, meant, others, meant <= self._goal.seconds, policy)
        self.trials[workers, policy] = trial
        return trial

    def find_fewest_workers(self, policy: Policy, now: Trial, setting: str | None = None) -> Trial | None:
        """The smallest number of workers that meets the goal, looked for by halves."""
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
        """The best of all settings changed one at a time: at the reference's workers, and with one worker less."""
        for setting, changed in policy_variants(policy):
            trial = self.run_trial(reference.workers, changed, setting)
            if trial.is_met and reference.workers > 1:
                fewer = self.run_trial(reference.workers - 1, changed, setting)
                if fewer.is_met:
                    self.find_fewest_workers(changed, fewer, setting)
        met = [trial for trial in self.trials.values() if trial.is_met]
        return min(met, key=lambda trial: (trial.workers, trial.setting is not None, trial.meant), default=None)

    def finish(self) -> None:
        """All is done, however many runs it took."""
        if self._progress is not None:
            self._progress(1, 1)

    def _trial_progress(self, done: int) -> ProgressCallback | None:
        tell = self._progress
        if tell is None:
            return None
        runs = max(EXPECTED_RUNS, done + 5)
        return lambda now, total: tell(done * total + now, runs * total)


def policy_variants(policy: Policy) -> Iterator[tuple[str, Policy]]:
    """The policy with one setting changed, and which."""
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
    """Levels that are narrower or wider; each still one document wide at least."""
    result: list[int] = []
    for threshold in thresholds:
        highest = result[-1] - 1 if result else -1
        result.append(min(highest, round(threshold * part)))
    return tuple(result)


def busiest_span(history: History, max_documents: int = MAX_SAMPLE_DOCUMENTS) -> History:
    """The stretch of so many documents in which the most work came in the least time, if there are more."""
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
        arrivals=arrivals[stored],
        waits=history.waits[stored],
        finished=history.finished[stored],
        levels=history.levels[stored],
        warmup_documents=begin - first,
    )
