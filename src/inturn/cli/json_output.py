"""Build the JSON of the command line. Times and durations are whole microseconds."""

from collections.abc import Iterable
from typing import Any

from inturn.insights import AtWork, CustomerShare, LiveView, Overview, Shares, Why
from inturn.model import Customer, Document, settings_to_dict
from inturn.store_types import Attempt, PolicyVersion


def document_record(document: Document) -> dict[str, Any]:
    """A document."""
    record = document._asdict()
    spec = record.pop("spec")
    fields = (
        "name",
        "uri",
        "size",
        "media_type",
        "batch",
        "group",
        "pages",
        "cost",
        "start_by",
        "max_attempts",
    )
    steps = {"steps": list(spec.steps), "ahead": list(document.ahead)}
    return {**record, **{name: getattr(spec, name) for name in fields}, **steps, "metadata": dict(spec.metadata)}


def customer_record(customer: Customer) -> dict[str, Any]:
    """A customer with its settings and lanes."""
    return {
        "customer": customer.name,
        "count": customer.count,
        "updated_at": customer.updated_at,
        "waiting": customer.waiting,
        "running": customer.running,
        **settings_to_dict(customer.settings._asdict()),
        "lines": [lane._asdict() for lane in customer.lanes],
        "at_slot_limit": customer.at_slot_limit,
    }


def policy_record(version: PolicyVersion) -> dict[str, Any]:
    """A version of the policy."""
    author = {
        "version": version.number,
        "at": version.at,
        "operator": version.operator.name,
        "why": version.operator.why,
    }
    return {**author, **version.policy.to_dict()}


def overview_record(overview: Overview) -> dict[str, Any]:
    """The overview of the queue."""
    return {
        "at": overview.at,
        "paused": None if overview.paused is None else overview.paused._asdict(),
        "states": {str(state): n for state, n in sorted(overview.states.items())},
        "waiting": {str(level): n for level, n in sorted(overview.waiting.items())},
        "waiting_closed": overview.waiting_closed,
        "customers": overview.customers,
        "oldest_wait": overview.oldest_wait,
        "started": overview.throughput.started,
        "finished": overview.throughput.finished,
        "policy": overview.policy.number,
        "order": str(overview.policy.policy.turns.order),
    }


def share_record(share: CustomerShare | None) -> dict[str, Any] | None:
    """A customer's share of worker seconds against its fair share; None if workers did nothing."""
    return None if share is None else share._asdict()


def why_record(why: Why, attempts: Iterable[Attempt], share: CustomerShare | None) -> dict[str, Any]:
    """The explanation of a document's level and position, its customer's share, and its earlier attempts."""
    document, bounds, counter, ahead = why.document, why.bounds, why.counter, why.ahead
    return {
        "id": document.id,
        "customer": document.customer,
        "state": str(document.state),
        "error": document.error,
        "attempt": document.attempt,
        "max_attempts": document.spec.max_attempts,
        "level": document.level,
        "count": document.count,
        "expedited": document.expedited,
        "below": bounds.below if bounds else None,
        "not_below": bounds.not_below if bounds else None,
        "counter": counter.count if counter else None,
        "counter_resets_after": counter.resets_after if counter else None,
        "queue": document.queue,
        "step": document.step,
        "unended_parts": why.unended_parts,
        "closed_by": [str(closed_by) for closed_by in why.closed_by],
        "place": why.place,
        "no_place": why.no_place,
        "better_levels": ahead.better_levels if ahead else None,
        "same_level": ahead.same_level if ahead else None,
        "own_line": ahead.own_line if ahead else None,
        "start_earliest": why.start.earliest if why.start else None,
        "start_latest": why.start.latest if why.start else None,
        "no_start": why.no_start,
        "slot_use": None if why.slot_use is None else why.slot_use._asdict(),
        "share": share_record(share),
        "attempts": [attempt._asdict() for attempt in attempts],
    }


def live_record(view: LiveView, shares: Shares) -> dict[str, Any]:
    """The live view of the queue, with the shares of its customers."""
    return {
        "at": view.at,
        "paused": None if view.paused is None else view.paused._asdict(),
        "states": {str(state): n for state, n in sorted(view.states.items())},
        "waiting": {str(level): n for level, n in sorted(view.waiting.items())},
        "oldest_waits": {str(level): wait for level, wait in sorted(view.oldest_waits.items())},
        "per_second": view.per_second,
        "customers": [
            {
                **customer_record(busy_customer.customer),
                "level": busy_customer.level,
                "share": share_record(shares.of(busy_customer.customer.name)),
            }
            for busy_customer in view.busiest
        ],
        "workers": [worker_record(at_work) for at_work in view.at_work],
    }


def worker_record(at_work: AtWork) -> dict[str, Any]:
    """A worker and its running documents."""
    report = at_work.worker.report
    progress = report.progress
    documents = [
        {
            "id": document.id,
            "customer": document.customer,
            "name": document.spec.name,
            "progress": list(progress[document.id]) if document.id in progress else None,
        }
        for document in at_work.documents
    ]
    own = {name: value for name, value in report._asdict().items() if name not in {"progress", "at_work"}}
    return {
        **own,
        "seen_at": at_work.worker.seen_at,
        "documents": documents,
        "claimed_ahead": at_work.claimed_ahead,
    }
