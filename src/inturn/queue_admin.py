"""Operate a queue: cancel, retry, expedite, purge, pause, settings, policy, API keys, maintenance.

Each change of an operator writes an event with the operator's name and reason, the audit log.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from inturn.errors import IllegalTransitionError, InvalidInputError
from inturn.forms import form_text
from inturn.ids import clean_id
from inturn.model import (
    NO_METADATA,
    RETRYABLE,
    CustomerSettings,
    DocumentState,
    QueueSettings,
    RateLimit,
    Receipt,
    clean_queue,
)
from inturn.policy import Policy
from inturn.policy.forecasts import ForecastOutcome
from inturn.queue_reader import QueueReader
from inturn.store_answers import Discrepancy, MaintenanceRecord, PruneResult, SweepResult
from inturn.store_api_keys import ApiKeys
from inturn.store_history import FoldResult
from inturn.store_types import DocumentFilter, Operator, PolicyVersion
from inturn.values import clean_text

CHUNK_SIZE: Final = 1_000
"""Documents that one transaction changes."""


class QueueAdmin(QueueReader):
    """The actions of operators and of maintenance on a queue."""

    # -- documents --------------------------------------------------------------------------------------------------

    def cancel(self, id: str, operator: Operator, *, now: int | None = None) -> None:
        """Cancel one document that has not ended."""
        if not self.store.cancel((clean_id(id),), operator, now=now):
            self._raise_illegal_transition(id, "be cancelled")

    def retry(self, id: str, operator: Operator, *, from_start: bool = False, now: int | None = None) -> Receipt:
        """Requeue one failed, cancelled or expired document: a new check.

        It begins with the step that it stopped at, or with its first one.
        """
        receipts = self.store.retry((clean_id(id),), operator, from_start=from_start, now=now)
        if not receipts:
            self._raise_illegal_transition(id, "be tried again", if_done="; to process it again, submit it again")
        return receipts[0]

    def cancel_many(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[str, ...]:
        """Cancel those of the documents that have not ended; return their ids."""
        return self.store.cancel([clean_id(id_) for id_ in ids], operator, now=now)

    def retry_many(
        self, ids: Sequence[str], operator: Operator, *, from_start: bool = False, now: int | None = None
    ) -> tuple[Receipt, ...]:
        """Requeue those of the documents that failed, were cancelled or expired; return their receipts."""
        return self.store.retry([clean_id(id_) for id_ in ids], operator, from_start=from_start, now=now)

    def cancel_all(self, where: DocumentFilter, operator: Operator, *, now: int | None = None) -> int:
        """Cancel all matching documents that have not ended; return how many."""
        return sum(len(self.store.cancel(ids, operator, now=now)) for ids in self._matching_ids(where))

    def retry_all(
        self, where: DocumentFilter, operator: Operator, *, from_start: bool = False, now: int | None = None
    ) -> int:
        """Requeue all matching failed, cancelled and expired documents; return how many."""
        return sum(
            len(self.store.retry(ids, operator, from_start=from_start, now=now)) for ids in self._matching_ids(where)
        )

    def retry_in_chunks(
        self, ids: Sequence[str], operator: Operator, *, from_start: bool = False, now: int | None = None
    ) -> int:
        """Requeue those of any number of documents that still can be, in the given order; return how many."""
        chunks = (ids[at : at + CHUNK_SIZE] for at in range(0, len(ids), CHUNK_SIZE))
        return sum(len(self.store.retry(chunk, operator, from_start=from_start, now=now)) for chunk in chunks)

    def expedite(self, id: str, operator: Operator, *, undo: bool = False, now: int | None = None) -> None:
        """Move one waiting or delayed document ahead of all levels, or back to its place with `undo`."""
        if not self.store.expedite(clean_id(id), operator, undo=undo, now=now):
            self._raise_illegal_transition(id, "go back to its place" if undo else "be expedited")

    # -- customers and the whole queue ------------------------------------------------------------------------------

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> PruneResult:
        """Delete all documents of a customer; its counter stays."""
        return self._without_used_blobs(self.store.purge(clean_text("a customer's name", customer), operator, now=now))

    def change_customer(
        self,
        customer: str,
        operator: Operator,
        *,
        now: int | None = None,
        expected: Mapping[str, Any] = NO_METADATA,
        **changes: Any,
    ) -> CustomerSettings:
        """Change some of a customer's settings: weight, cap, rate, paused, display_name, keep.

        If one of the `expected` settings is another by now, nothing is changed and `VersionConflictError` raised.
        """
        unknown = {*changes, *expected} - set(CustomerSettings._fields)
        if unknown or not changes:
            names = ", ".join(sorted(unknown)) or "nothing"
            raise InvalidInputError(f"change one of {', '.join(CustomerSettings._fields)}, not {names}")
        if isinstance(changes.get("rate"), (tuple, list)):
            changes["rate"] = RateLimit(*changes["rate"])
        name = clean_text("a customer's name", customer)
        return self.store.change_customer(name, changes, operator, expected=expected, now=now)

    def pause(
        self, operator: Operator, customer: str | None = None, *, queue: str | None = None, now: int | None = None
    ) -> None:
        """Stop starting documents of one customer, of one queue, or of all."""
        if _one_of(customer, queue) and customer is not None:
            self.change_customer(customer, operator, paused=True, now=now)
        else:
            self.store.pause(operator, queue=queue, now=now)

    def resume(
        self, operator: Operator, customer: str | None = None, *, queue: str | None = None, now: int | None = None
    ) -> None:
        """Start documents of one customer, of one queue, or of all, again."""
        if _one_of(customer, queue) and customer is not None:
            self.change_customer(customer, operator, paused=False, now=now)
        else:
            self.store.resume(operator, queue=queue, now=now)

    def change_queue(self, name: str, operator: Operator, *, now: int | None = None, **changes: Any) -> QueueSettings:
        """Change some settings of a queue, known or new: fields of `QueueSettings`.

        A `form` is a list of fields as `inturn.forms` describes them, or None.
        """
        unknown = changes.keys() - set(QueueSettings._fields)
        if unknown:
            names = ", ".join(QueueSettings._fields)
            raise InvalidInputError(f"a queue has no setting {', '.join(sorted(unknown))}; it has {names}")
        if isinstance(changes.get("rate"), (tuple, list)):
            changes["rate"] = RateLimit(*changes["rate"])
        if changes.get("form") is not None:
            changes["form"] = form_text(changes["form"])
        return self.store.change_queue(clean_queue(name), changes, operator, now=now)

    def pause_worker(self, name: str, operator: Operator, *, now: int | None = None) -> None:
        """Stop one worker from claiming: it finishes what it has. A restart of its process ends the pause."""
        self.store.pause_worker(clean_text("a worker's name", name), operator, now=now)

    def resume_worker(self, name: str, operator: Operator, *, now: int | None = None) -> None:
        """Let a paused worker claim again."""
        self.store.resume_worker(clean_text("a worker's name", name), operator, now=now)

    def set_policy(
        self,
        policy: Policy,
        operator: Operator,
        *,
        expected: int | None = None,
        now: int | None = None,
    ) -> PolicyVersion:
        """Put a policy in force. VersionConflictError if `expected` is not the version in force."""
        return self.store.set_policy(policy, operator, expected=expected, now=now)

    @property
    def api_keys(self) -> ApiKeys:
        """The API keys of the queue's servers."""
        return self.store.api_keys

    # -- maintenance ------------------------------------------------------------------------------------------------

    def sweep(self, *, now: int | None = None) -> SweepResult:
        """Expire leases and `start_by`, and make due documents claimable."""
        return self.store.sweep(now=now)

    def prune(
        self,
        before: int,
        *,
        limit: int,
        customer: str | None = None,
        up_to: int | None = None,
        now: int | None = None,
    ) -> PruneResult:
        """Delete up to `limit` documents that ended before a time, of one customer or of all without a `keep`.

        Events and expired idempotency keys are deleted as well. With `up_to`, no document with a higher seq is deleted.
        """
        return self._without_used_blobs(self.store.prune(before, limit=limit, customer=customer, up_to=up_to, now=now))

    def _without_used_blobs(self, removed: PruneResult) -> PruneResult:
        """Leave out blobs that another document has too: parts may share that of their document."""
        unused = self.store.unreferenced_blobs(removed.blobs) if removed.blobs else frozenset()
        return removed._replace(blobs=tuple(blob for blob in dict.fromkeys(removed.blobs) if blob in unused))

    def fold_history(self, *, limit: int, pause: int = 0, now: int | None = None) -> FoldResult:
        """Add up to `limit` events to the history."""
        return self.store.history.fold(limit=limit, pause=pause, now=now)

    def acknowledge_failures(self, operator: Operator, *, now: int | None = None) -> None:
        """Record that an operator has seen the failures so far: overviews count later ones."""
        self.store.history.acknowledge_failures(operator, now=now)

    def forget_old_history(self, *, now: int | None = None) -> int:
        """Delete minutes of the history after 48 hours, and hours after 90 days; return how many rows."""
        return self.store.history.forget_old(now=now)

    def index_documents(self, *, limit: int) -> int:
        """Index documents for `search`; return how many, 0 if there is nothing to do."""
        return self.store.index_documents(limit=limit)

    def clean_index(self, *, limit: int) -> int:
        """Delete from up to `limit` parts of the index of `search` what they have of documents that are gone."""
        return self.store.clean_index(limit=limit)

    def record_maintenance(self, record: MaintenanceRecord) -> None:
        """Store the record of the last maintenance round."""
        self.store.record_maintenance(record)

    def add_forecasts(self, outcomes: Sequence[ForecastOutcome]) -> None:
        """Add what became of forecasts of starts: later forecasts learn from it."""
        self.store.add_forecasts(outcomes)

    def recount(self, *, repair: bool) -> tuple[Discrepancy, ...]:
        """Compare all stored counters with the documents, and correct them if `repair`."""
        return self.store.recount(repair=repair)

    def _matching_ids(self, where: DocumentFilter) -> Iterable[list[str]]:
        """Return ids in chunks, oldest first: a retry is a check, and the oldest should get the best level."""
        ids: list[str] = []
        after: str | None = None
        while True:
            page = self.store.documents(where, limit=CHUNK_SIZE, after=after)
            ids += [document.id for document in page.items]
            after = page.next
            if after is None:
                break
        ids.reverse()
        return (ids[at : at + CHUNK_SIZE] for at in range(0, len(ids), CHUNK_SIZE))

    def _raise_illegal_transition(self, id_: str, action: str, *, if_done: str = "") -> None:
        document = self.store.document(clean_id(id_))
        if document.parent is not None and document.state in RETRYABLE:
            raise IllegalTransitionError(
                f"document {document.id} is a part of {document.parent}, which has gone on without it; retry that one"
            )
        state = f"{document.state} and expedited already" if document.expedited else str(document.state)
        advice = if_done if document.state is DocumentState.DONE else ""
        raise IllegalTransitionError(f"document {document.id} is {state} and cannot {action}{advice}")


def _one_of(customer: str | None, queue: str | None) -> bool:
    """Whether a customer or a queue is named, but not both."""
    if customer is not None and queue is not None:
        raise InvalidInputError("name a customer or a queue, not both; a customer is paused in all queues")
    return customer is not None or queue is not None
