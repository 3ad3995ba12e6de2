"""Jobs that screens request: bounded, with progress, cancelled by an exception from the progress callback.

`run_job(request, emit)` runs one of these; `python -m inturn.analysis.job_process` does so in a process of its own.

    {"kind": "policy",   "store": URL, "policy": {…}, "since": µs, "most": n}                  -> {"comparison": {…}}
    {"kind": "replay",   "store": URL, "plan": {…}, "since": µs, "until": µs, "most": n}       -> {"comparison": {…}}
    {"kind": "judge",    "store": URL, "version": n or null, "now": µs, "most": n}             -> {"judgement": {…}}
    {"kind": "advise",   "store": URL, "goal": "…", "since": µs, "most": n}                    -> {"advice": {…}}
    {"kind": "scenario", "scenario": name or TOML, "orders": ["fair", …], "seed": n, "most": n} -> {"reports": [{…}]}

A plan is `{"policy": {…}, "order": "classic", "workers": n, "settings": {customer: {"weight": 2}}}`; each may be left
out. An order without a policy is that of the policy in force. `longest` is the number of seconds that the job may take.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Final

from inturn.analysis.advice import advise
from inturn.analysis.compare import Comparison, compare, rounded
from inturn.analysis.engine import Discipline, simulate_scenario
from inturn.analysis.goals import DEFAULT_GOAL, parse_goal
from inturn.analysis.history import WARMUP_DURATION, History, ProgressCallback, read_history
from inturn.analysis.metrics import build_report
from inturn.analysis.policy_evaluation import evaluate_policy
from inturn.analysis.replay import UNCHANGED_PLAN, Plan
from inturn.analysis.scenario import Scenario, built_in_scenarios, parse_scenario
from inturn.errors import InvalidInputError
from inturn.policy import Policy
from inturn.queue import Queue
from inturn.queue_reader import QueueReader
from inturn.stores import open_store

DEFAULT_MAX_DOCUMENTS: Final = 50_000
"""Documents, unless said otherwise."""
DEFAULT_TIMEOUT_SECONDS: Final = 60.0
MAX_LISTED_CUSTOMERS: Final = 200
"""Customers whose own figures a comparison carries."""

Send = Callable[[dict[str, Any]], None]


class JobTimeoutError(InvalidInputError):
    """A job was ended because of its time."""


def run_job(request: Mapping[str, Any], send: Send, queue: QueueReader | None = None) -> None:
    """Run a job; emit `{"done": n, "total": n}` on the way and the result at the end.

    Without a `queue`, the job opens the store at the request's address. An exception of `emit` ends the job.
    """
    kind = request.get("kind", "policy")
    if kind not in _JOBS:
        raise InvalidInputError(f"a job is one of {', '.join(_JOBS)}, not {kind!r}")
    ends_at = time.monotonic() + request.get("longest", DEFAULT_TIMEOUT_SECONDS)

    def progress(done: int, total: int) -> None:
        if time.monotonic() > ends_at:
            raise JobTimeoutError(
                f"this took longer than {request.get('longest', DEFAULT_TIMEOUT_SECONDS):g} seconds; ask for less"
            )
        if total:
            send({"done": done, "total": total})

    if kind == "scenario":
        send(_run_scenario(request, progress))
        return
    with _borrowed_queue(request, queue) as opened:
        send(_JOBS[kind](request, opened, progress))


@contextmanager
def _borrowed_queue(request: Mapping[str, Any], queue: QueueReader | None) -> Iterator[QueueReader]:
    if queue is not None:
        yield queue
        return
    with Queue(open_store(request["store"])) as opened:
        yield opened


def _read_history(request: Mapping[str, Any], queue: QueueReader, progress: ProgressCallback) -> History:
    since, until, most = request["since"], request.get("until"), request.get("most", DEFAULT_MAX_DOCUMENTS)
    return read_history(
        queue, since, until=until, warmup=min(WARMUP_DURATION, since), max_documents=most, progress=progress
    )


def _run_policy(request: Mapping[str, Any], queue: QueueReader, progress: ProgressCallback) -> dict[str, Any]:
    current = Plan(queue.policy().policy)
    comparison = compare(
        _read_history(request, queue, progress), current, Plan(Policy.from_dict(request["policy"])), progress
    )
    return {"comparison": _with_customers(comparison)}


def _run_replay(request: Mapping[str, Any], queue: QueueReader, progress: ProgressCallback) -> dict[str, Any]:
    stored = request.get("plan") or {}
    policy = None if stored.get("policy") is None else Policy.from_dict(stored["policy"])
    if stored.get("order") is not None:
        (play,) = _parse_disciplines([stored["order"]])
        policy = play.apply_to(policy or queue.policy().policy)
    proposed = Plan(policy, stored.get("workers"), stored.get("settings") or {})
    comparison = compare(
        _read_history(request, queue, progress),
        UNCHANGED_PLAN,
        None if proposed == UNCHANGED_PLAN else proposed,
        progress,
    )
    return {"comparison": _with_customers(comparison)}


def _with_customers(comparison: Comparison) -> dict[str, Any]:
    return {
        **comparison.to_dict(),
        "everyone": [
            rounded(asdict(customer_change)) for customer_change in comparison.everyone[:MAX_LISTED_CUSTOMERS]
        ],
    }


def _run_evaluation(request: Mapping[str, Any], queue: QueueReader, progress: ProgressCallback) -> dict[str, Any]:
    most = request.get("most", DEFAULT_MAX_DOCUMENTS)
    policy_evaluation = evaluate_policy(
        queue, request.get("version"), now=request["now"], max_documents=most, progress=progress
    )
    return {"judgement": policy_evaluation.to_dict()}


def _run_advice(request: Mapping[str, Any], queue: QueueReader, progress: ProgressCallback) -> dict[str, Any]:
    goal = parse_goal(request.get("goal") or DEFAULT_GOAL)
    return {
        "advice": advise(_read_history(request, queue, progress), Plan(queue.policy().policy), goal, progress).to_dict()
    }


def _run_scenario(request: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Any]:
    scenario = _find_scenario(request["scenario"])
    if request.get("seed") is not None:
        scenario = replace(scenario, seed=request["seed"])
    plays = _parse_disciplines(request.get("orders") or Discipline)
    result = []
    for number, play in enumerate(plays):

        def report_progress(done: int, total: int, before: int = number) -> None:
            progress(before * total + done, len(plays) * total)

        result.append(
            build_report(
                simulate_scenario(
                    scenario, play, progress=report_progress, max_documents=request.get("most", DEFAULT_MAX_DOCUMENTS)
                )
            ).to_dict()
        )
    return {"reports": result}


def _parse_disciplines(orders: Iterable[str]) -> list[Discipline]:
    unknown = set(orders) - set(Discipline)
    if unknown:
        raise InvalidInputError(f"an order is one of {', '.join(Discipline)}, not {', '.join(sorted(unknown))}")
    return [Discipline(order) for order in orders]


def _find_scenario(text: str) -> Scenario:
    """A built-in scenario by its name, or one written as TOML; never a file of this machine."""
    known = built_in_scenarios()
    return known[text] if text in known else parse_scenario("scenario", text)


_JOBS: Final[Mapping[str, Callable[[Mapping[str, Any], QueueReader, ProgressCallback], dict[str, Any]]]] = {
    "policy": _run_policy,
    "replay": _run_replay,
    "judge": _run_evaluation,
    "advise": _run_advice,
    "scenario": lambda asked, _, progress: _run_scenario(asked, progress),
}
