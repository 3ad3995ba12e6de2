"""Jobs that screens request: bounded, with progress, cancelled by an exception from the progress callback.

`run_job(request, emit)` runs one of these:

    {"kind": "policy", "store": URL, "policy": {…}, "since": µs, "most": n}            -> {"comparison": {…}}
    {"kind": "replay", "store": URL, "plan": {…}, "since": µs, "until": µs, "most": n} -> {"comparison": {…}}
    {"kind": "judge",  "store": URL, "version": n or null, "now": µs, "most": n}       -> {"judgement": {…}}

A plan is `{"order": "classic", "charge": "documents", "max_share": 0.5, "workers": n}`; each may be left out. The rest
of its policy is the one in force. `longest` is the number of seconds that the job may take.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

from inturn.analysis.charges import with_sharing
from inturn.analysis.compare import Comparison, compare, rounded
from inturn.analysis.engine import Discipline
from inturn.analysis.history import WARMUP_DURATION, History, ProgressCallback
from inturn.analysis.history_reader import read_history
from inturn.analysis.policy_evaluation import evaluate_policy
from inturn.analysis.replay import UNCHANGED_PLAN, Plan
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
    plan = request.get("plan") or {}
    proposed = Plan(_planned_policy(plan, queue), plan.get("workers"))
    comparison = compare(
        _read_history(request, queue, progress),
        UNCHANGED_PLAN,
        None if proposed == UNCHANGED_PLAN else proposed,
        progress,
    )
    return {"comparison": _with_customers(comparison)}


def _planned_policy(plan: Mapping[str, Any], queue: QueueReader) -> Policy | None:
    """Return the policy in force with a plan's changes; None if it changes nothing of it."""
    order, charge, max_share = (plan.get(name) for name in ("order", "charge", "max_share"))
    if order is None and charge is None and max_share is None:
        return None
    policy = with_sharing(queue.policy().policy, charge, max_share)
    return policy if order is None else Discipline(order).apply_to(policy)


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


_JOBS: Final[Mapping[str, Callable[[Mapping[str, Any], QueueReader, ProgressCallback], dict[str, Any]]]] = {
    "policy": _run_policy,
    "replay": _run_replay,
    "judge": _run_evaluation,
}
