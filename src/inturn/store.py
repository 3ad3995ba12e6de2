"""Define the store contract: the methods of every store, with numbered guarantees.

Read this file first: it describes the whole queue. Each number marks at least one test in `inturn.testing.contract`.
The value types are in `inturn.store_types` and `inturn.store_answers`. Guarantees of every method:

- A0. A call is atomic and isolated from all other calls. Once it has returned it survives a crash, except in the
  memory store.
- A1. `now` is microseconds since 1970. If left out, the store's own clock is used. No data is lost when a clock goes
  back.
- A2. Arguments are valid, because `inturn.queue` has checked them. Unknown ids and customers raise `NotFoundError`.
- A3. Every state change of a document is listed in `inturn.model.TRANSITIONS` and writes an event.

Terms. A *lane* holds one customer's waiting documents of one level of one queue, by seq. A lane is *open* unless a
pause, cap or rate limit closes it. *V* is the virtual time of a level (`inturn.policy.scheduler`). A *check* lowers the
customer's counter and returns a level.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from inturn.errors import InturnError, StaleFenceError
from inturn.model import (
    DEFAULT_QUEUE,
    NO_METADATA,
    Check,
    Claim,
    Customer,
    CustomerSettings,
    Document,
    QueueSettings,
    QueueStatus,
    Receipt,
    ResultFile,
)
from inturn.policy import Policy
from inturn.policy.forecasts import ForecastLog, ForecastOutcome
from inturn.store_answers import (
    AheadOfClock,
    Counts,
    CustomerSummary,
    Discrepancy,
    Failure,
    MaintenanceRecord,
    Page,
    PruneResult,
    SchedulerSnapshot,
    SearchResult,
    SweepResult,
    Throughput,
    WorkLog,
)
from inturn.store_api_keys import ApiKeys
from inturn.store_history import History
from inturn.store_types import (
    ALL_TIME,
    AckAndClaim,
    AckStatus,
    Attempt,
    ClaimRequest,
    CustomerFilter,
    DocumentFilter,
    DocumentSort,
    Event,
    LeaseStatus,
    Operator,
    Outcome,
    OutcomeKind,
    PartResult,
    PolicyVersion,
    StepResult,
    Submission,
    SubmitResult,
    TimeRange,
)
from inturn.worker_report import Worker, WorkerReport


@runtime_checkable
class Store(Protocol):
    """Store counters, documents, lanes and the scheduler state, and change them by the rules of `inturn.policy`."""

    api_keys: ApiKeys
    history: History

    # -- submit -----------------------------------------------------------------------------------------------------

    def check(self, customer: str, n: int, *, key: str | None = None, now: int | None = None) -> tuple[Check, ...]:
        """Check a customer n times, for documents that wait in another queue.

        S1. Equals `PriorityPolicy.check` n times at one instant, on the counter that `submit` uses.
        S2. Creates no lane and no document.
        S3. With an idempotency key, a repeat within 7 days returns the first answer and checks nothing. A repeat with
            another n raises KeyConflictError.
        """

    def submit(self, submission: Submission, *, now: int | None = None) -> tuple[Receipt, ...]:
        """Store new documents: one check each, at one instant, in the given order.

        S4. When this returns, the documents are stored, and counter and lanes are updated with them.
        S5. Each document waits in the lane of its level, behind the customer's earlier ones; with `delay`, once the
            delay is over.
        S37. A document without a cost of its own gets the policy's cost for its pages and size.
        S6. With an idempotency key, a repeat within 7 days returns the first receipts and changes nothing. A repeat
            with other content raises KeyConflictError. A refused call changes nothing.
        """

    def submit_all(self, submissions: Sequence[Submission], *, now: int | None = None) -> tuple[SubmitResult, ...]:
        """Submit for several callers: return the receipts, or the error, of each.

        S44. Equals submitting them one by one in this order. A store may commit them together.
        """
        return tuple([self._try_submit(submission, now) for submission in submissions])

    def _try_submit(self, submission: Submission, now: int | None) -> SubmitResult:
        try:
            return self.submit(submission, now=now)
        except InturnError as error:
            return error

    # -- workers ----------------------------------------------------------------------------------------------------

    def ack_and_claim(
        self, outcomes: Sequence[Outcome], request: ClaimRequest | None, *, now: int | None = None
    ) -> AckAndClaim:
        """Record outcomes, then claim documents. A store may commit the outcomes first.

        S7. An outcome is recorded once. RECORDED: its fence is that of the running claim. REPEATED: the same kind of
            outcome was recorded under this fence before. STALE otherwise. Only RECORDED changes anything.
        S8. DONE stores the result and its files. FAILED with `retry_in` and an attempt left delays the document;
            otherwise the document fails for good. An automatic retry is no check and keeps level and seq. RELEASED
            puts the document back as if never claimed: no attempt counted, its lane refunded, `ready_at` unchanged.
        S74. NEXT stores result and files as those of a step, and moves the document to another queue: into the lane of
             its level there, by its seq, with `ready_at` now, attempts from zero and no `start_by`. It is no check,
             unless the policy has `check_each_step`.
        S75. SPLIT stores result and files in the same way, and new documents that are parts of this one: of its
             customer, level and count, each behind the customer's earlier ones. With `check_each_step` each part is a
             check instead. The document is SPLIT, and belongs to the queue of its next step.
        S76. A claim or a sweep moves a SPLIT document without unended parts to the lane of its next step, as NEXT does,
             but without a check. Documents go by seq.
        S51. A recorded outcome stores when processing began and how long it took, from its `work`. Both are clamped to
            the time between the claim and now. A new claim clears them.
        S9. A claim first processes everything due: `start_by` (documents never started), expired leases, delays, then
            S76, then rate limits. Each but S76 goes by time, then by seq or name.
        S10. It then takes documents in the order of `inturn.policy.scheduler`. A claim of k equals k claims of one.
        S11. A document has at most one claim at a time. Fences grow and are never reused.
        S12. Nothing is claimed from a paused queue or customer, above a cap or above a rate limit.
        S81. The cap and the rate limit of a queue hold for all of its documents together. A queue that they close is
             passed over like one that is paused.
        S13. A claim takes documents up to its limit as long as an open lane has one (work conservation).
        S54. With charges by time, a start charges its lane the time expected from the customer's earlier documents, and
             the end corrects it by the time that was used. Done and failed attempts use their `work`, lost leases and
             cancelled runs the time until the lease or the run ended. No end moves an open lane before V.
        S55. While documents of other customers are started too, no start brings a customer above `max_share` of the
             live slots (`inturn.policy.slot_share`). Live are those of workers that reported within `WORKER_TIMEOUT`.
        S73. A claim gets documents of the queues that it names, and of no other. Each queue has lanes, virtual times,
             an overdue slot and shares of its own; what a customer's settings allow counts over all queues. A claim of
             several queues is served by `inturn.policy.queue_turns`.
        S56. Groups of one customer take turns inside each of its lanes (`inturn.policy.groups`). When and how often a
             lane is served does not depend on its groups, but for the overdue slot: it goes by the lane's oldest
             document of any group. With the order `classic` groups have no effect.
        """

    def claim(self, request: ClaimRequest, *, now: int | None = None) -> tuple[Claim, ...]:
        """Claim without outcomes: S9 to S13."""
        return self.ack_and_claim((), request, now=now).claimed

    def finish(self, id: str, fence: int, result: str, *, now: int | None = None) -> None:
        """Record success: S7 and S8. StaleFenceError if the fence is stale."""
        self.record(Outcome(id, fence, OutcomeKind.DONE, result=result), now=now)

    def fail(self, id: str, fence: int, error: str, retry_in: int | None, *, now: int | None = None) -> None:
        """Record failure: S7 and S8. StaleFenceError if the fence is stale."""
        self.record(Outcome(id, fence, OutcomeKind.FAILED, error=error, retry_in=retry_in), now=now)

    def release(self, id: str, fence: int, *, now: int | None = None) -> None:
        """Release an unstarted claim: S7 and S8. StaleFenceError if the fence is stale."""
        self.record(Outcome(id, fence, OutcomeKind.RELEASED), now=now)

    def record(self, outcome: Outcome, *, now: int | None = None) -> None:
        """Record one outcome: S7 and S8. StaleFenceError if the fence is stale."""
        if self.ack_and_claim((outcome,), None, now=now).statuses[0] is AckStatus.STALE:
            raise StaleFenceError(
                f"fence {outcome.fence} no longer holds document {outcome.id}: its lease was lost, or it was"
                f" cancelled or purged; drop this outcome",
            )

    def heartbeat(
        self, claims: Sequence[tuple[str, int]], lease: int, *, now: int | None = None
    ) -> tuple[LeaseStatus, ...]:
        """Renew the leases of running claims, given as (id, fence).

        S14. A HELD claim now lasts `lease` from now, and cannot be claimed by another worker before. CANCELLED: stop
             processing. LOST: the claim ended in any other way, or the document is unknown.
        """

    def record_worker(self, report: WorkerReport, *, now: int | None = None) -> None:
        """Store a worker's report.

        S35. The last report of each worker name is stored until `forget_worker`, or until it is a day old.
        S63. A report of another process (another `started_at`) under the same name ends the pause of the worker.
        """

    def forget_worker(self, name: str) -> None:
        """Delete the report of a worker that stops: S35."""

    def workers(self) -> tuple[Worker, ...]:
        """Return the last report of each worker, by name, with the pause it is under: S35, S62."""

    def pause_worker(self, name: str, operator: Operator, *, now: int | None = None) -> None:
        """Stop one worker from claiming; it finishes what it has.

        S62. A claim of this worker that begins after this returns gets nothing, and its slots are no live slots,
             until `resume_worker` or until its process ends. What is due is still processed, and outcomes are recorded.
             Writes an event with the operator and the worker's name. NotFoundError if no such worker reports.
        """

    def resume_worker(self, name: str, operator: Operator, *, now: int | None = None) -> None:
        """Let a paused worker claim again: S62. Writes an event."""

    # -- operators --------------------------------------------------------------------------------------------------

    def cancel(self, ids: Sequence[str], operator: Operator, *, now: int | None = None) -> tuple[str, ...]:
        """Cancel waiting, delayed and running documents; return the ids that were cancelled.

        S15. Ended and unknown ids are skipped. The counter does not change. A running document stays charged to its
             lane, and its fence is stale at once.
        S79. The parts of a SPLIT document are cancelled with it, and theirs. Returned are the ids that were given.
        """

    def retry(
        self, ids: Sequence[str], operator: Operator, *, from_start: bool = False, now: int | None = None
    ) -> tuple[Receipt, ...]:
        """Requeue failed, cancelled and expired documents by hand; return a receipt for each that is processed again.

        S16. A retry by hand is a new check: new level, new seq, attempts from zero. Done, running, waiting, delayed,
             SPLIT and unknown documents are skipped.
        S78. It begins with the step that the document stopped at, and the results of earlier steps stay. With
             `from_start` it begins with the first step, without results, and the parts are deleted. A part is skipped
             unless its document is SPLIT, failed or cancelled. A document with unended parts is SPLIT again.
        """

    def expedite(self, id: str, operator: Operator, *, undo: bool = False, now: int | None = None) -> bool:
        """Move a waiting or delayed document ahead of all levels; False if it is in no such state.

        S17. The document keeps its level and count. Expedited documents of several customers take turns. A closed lane
             stays closed. The event has the operator. With `undo` an expedited document that waits goes back to its
             place in the lane of its level; a delay that was ended stays ended.
        """

    def purge(self, customer: str, operator: Operator, *, now: int | None = None) -> PruneResult:
        """Delete a customer's documents in any state, with results, idempotency keys and API keys.

        S18. Counter and settings stay. Running claims become stale. The event has the operator and the number of
             documents.
        """

    def change_customer(
        self,
        customer: str,
        changes: Mapping[str, Any],
        operator: Operator,
        *,
        expected: Mapping[str, Any] = NO_METADATA,
        now: int | None = None,
    ) -> CustomerSettings:
        """Change some settings (fields of `CustomerSettings`) of a customer, known or new.

        If one of the `expected` settings is another by now, nothing is changed and `VersionConflictError` raised.

        S19. Applies to documents that already wait. Closing a lane (pause, cap, rate) keeps levels and order. A
             reopened lane joins at V at the earliest: closed time earns no credit. A new weight scales the lane's
             distance from V and changes no level.
        """

    def pause(self, operator: Operator, *, queue: str | None = None, now: int | None = None) -> None:
        """Stop starting documents, of one queue or of all. S20. Running documents may finish; submits continue.

        A pause of all queues and that of one of them are apart. NotFoundError if there is no such queue.
        """

    def resume(self, operator: Operator, *, queue: str | None = None, now: int | None = None) -> None:
        """Start documents again. S21. Lanes keep their virtual time."""

    def paused(self, queue: str | None = None) -> Operator | None:
        """Return the operator who paused all queues, or this one, with the reason; None if it is not paused."""

    def change_queue(
        self, name: str, changes: Mapping[str, Any], operator: Operator, *, now: int | None = None
    ) -> QueueSettings:
        """Change some settings (fields of `QueueSettings`) of a queue, known or new.

        S72. A queue is made by this or by its first document, and stays. Every store has the queue `default`.
        """

    def queues(self) -> tuple[QueueStatus, ...]:
        """Return all queues in the order in which they were made, with the numbers of their documents."""

    def policy(self) -> PolicyVersion:
        """Return the active policy."""

    def set_policy(
        self, policy: Policy, operator: Operator, *, expected: int | None = None, now: int | None = None
    ) -> PolicyVersion:
        """Put a policy in force.

        S22. New levels apply to new checks; a new order applies to waiting documents too. Versions count up from 1 and
             record operator, time and reason. VersionConflictError if `expected` is not the version in force.
        """

    def policies(self) -> tuple[PolicyVersion, ...]:
        """Return all policy versions, newest first."""

    # -- queries ----------------------------------------------------------------------------------------------------

    def document(self, id: str) -> Document:
        """Return one document."""

    def result(self, id: str) -> str | None:
        """Return the result of a done document as JSON text, that of its last step; None in any other state."""

    def files(self, id: str) -> tuple[ResultFile, ...]:
        """Return the result files of a done document, by name, those of its last step; empty in any other state."""

    def results(self, id: str) -> tuple[StepResult, ...]:
        """Return the results of all steps that are done, in their order. S77. The last one is `result` once it is done.

        A document without steps has one result. A step that is retried, or repeated after a crash, has one result.
        """

    def parts(self, id: str, *, limit: int, after: int = 0) -> tuple[PartResult, ...]:
        """Return up to `limit` parts of a document with a number above `after`, by number.

        S77. They are those of the document's last split, and stay as long as it has not ended.
        """

    def attempts(self, id: str) -> tuple[Attempt, ...]:
        """Return the earlier attempts at a document, oldest first, with their errors.

        S45. Every ended attempt is stored once: here, or in the document itself if it ended the document. The newest
             50 are stored for as long as the document, and all that ended a step.
        """

    def unreferenced_blobs(self, blobs: Sequence[str]) -> frozenset[str]:
        """Return those of the blobs that no document and no result refers to. S36. Exact unless being submitted."""

    def documents(
        self,
        where: DocumentFilter,
        *,
        limit: int,
        after: str | None = None,
        sort: DocumentSort = DocumentSort.NEWEST,
    ) -> Page[Document]:
        """Return a page of documents by seq; a retry by hand gives a new seq.

        S23. Pages neither repeat nor skip documents that do not change meanwhile. A cursor works in both directions.
        S57. With a range of times the list has exactly the documents that were submitted, or that ended, in it. A
             document that was retried by hand keeps the time of its submission, and has no end until it ends again.
        """

    def search(self, text: str, *, limit: int, customer: str | None = None) -> SearchResult:
        """Search documents by id, name and metadata, batches, customers and errors; up to `limit` of each.

        S70. A document matches if its id begins with the text, or by `inturn.search_query.SearchQuery.matches`; a batch
             if its name begins with the text; a customer if its name or display name has the text in it; an error if
             it is the first line of the error of one of the newest `MAX_FAILURES` failed documents and has the text in
             it. Upper and lower case are the same. Documents are listed newest first, those that match by id before the
             others. Nothing is returned that does not match, and what is not returned though it matches makes the
             result incomplete.
        S67. With a customer, only its own documents, batches and errors are returned, and no other customer.
        """

    def index_documents(self, *, limit: int) -> int:
        """Index up to about `limit` documents for `search`; return how many, 0 if there is nothing to do.

        S68. The result of a search does not depend on it, but for its completeness. Once it returns 0 while nothing is
             submitted, a search is complete unless more than the limit, or more than `MAX_CANDIDATES`, may match.
        """

    def clean_index(self, *, limit: int) -> int:
        """Delete from up to `limit` parts of the index of `search` what they have of documents that are gone.

        Return how many parts were changed. A part has some thousand documents.
        S69. Once it changes fewer parts than `limit`, no word of a document that was deleted before is left. A purge
             leaves no word of the customer.
        """

    def customer(self, name: str) -> Customer:
        """Return one customer."""

    def customers(self, where: CustomerFilter, *, limit: int, after: str | None = None) -> Page[Customer]:
        """Return a page of customers by name: S23."""

    def customer_summaries(self) -> tuple[CustomerSummary, ...]:
        """Return all customers by name, in one snapshot. S65. The same figures as `customers`."""

    def counts(self, where: DocumentFilter) -> Counts:
        """Count documents by state and level. S24. Zeros are left out. Lane lengths agree with the documents."""

    def failures(self, within: TimeRange, *, limit: int) -> tuple[Failure, ...]:
        """Return the documents that failed in a range of times, newest first, by time and then by seq.

        S64. At most `limit`, the newest. The cost depends on these alone, not on the other documents that ended.
        """

    def events(self, after: int, *, limit: int) -> tuple[Event, ...]:
        """Return the events after number `after`, oldest first.

        S25. Numbers grow, and a gap is never filled later: a reader that has seen n has missed nothing up to n.
        S82. The documents of an event are of one customer, and in one queue when it happened. A call writes one event
             for each kind, customer and queue, in the order of their first documents. The queue is the one that the
             documents wait or ran in. That of STEP_DONE and SPLIT is the queue of the step that has ended; a SPLIT
             document that is cancelled or retried is in the queue of its next step. STEP_DONE has an event for each
             queue that the documents go to, named `next` in its detail.
        """

    def last_event(self) -> int:
        """Return the number of the newest event; 0 before the first. S41. `events` after it returns only new ones."""

    def audit(
        self, *, limit: int, before: int | None = None, customer: str | None = None, within: TimeRange = ALL_TIME
    ) -> tuple[Event, ...]:
        """Return events with an operator and a number below `before`, newest first. S42. They are never pruned.

        With a range, only those whose time lies in it.
        """

    def stored_bytes(self, customer: str) -> int:
        """Sum the sizes of a customer's documents in any state. S43. 0 for an unknown customer."""

    def scheduler_snapshot(self, queue: str = DEFAULT_QUEUE) -> SchedulerSnapshot:
        """Return all lanes of a queue with documents, and its scheduler state. S31. A claim now would start from it."""

    def ahead_in_lane(self, id: str) -> int:
        """Count the documents that would start before a waiting one in its own lane. S32. 0 in any other state."""

    def throughput(self, since: int) -> Throughput:
        """Count documents started and finished since a time, and documents running now.

        S33. Counts stored documents only. Starts: the last start of running and ended documents. Finishes: the end of
             done and failed documents.
        """

    def work_between(self, since: int, until: int) -> WorkLog:
        """Sum processing times between two times by customer and outcome, and list the running claims.

        S52. Counts each stored attempt once that ended at or after `since` and whose processing time is known (S51),
             by the part that lies between the two times. Spans that meet add up to the span over both.
        S53. The running claims are those of the same snapshot: a document is either ended here or running.
        """

    def wait(self, timeout: float) -> None:
        """Sleep until a document may have become claimable, or until `timeout` seconds have passed.

        S34. A commit of another thread or process wakes it. It may also wake without a reason.
        """

    def next_due(self) -> int | None:
        """Return when the next delay, lease or rate limit is due. S26. Before then, time alone changes nothing."""

    # -- maintenance ------------------------------------------------------------------------------------------------

    def sweep(self, *, now: int | None = None) -> SweepResult:
        """Process everything due (S9) without claiming.

        S27. Safe to run any number of times, concurrently.
        S46. First it reviews leases and delays that begin in the future, by `inturn.policy.clock_skew.review_term`, and
             clamps rate limits by `inturn.policy.rates.clamped_tat`. With a correct clock, none of them then lasts
             longer than its own length. A heartbeat ends the doubt about a lease. Workers whose last report is more
             than a day away, in the past or in the future, are forgotten.
        """

    def now(self) -> int:
        """Return the time that replaces a missing `now`. S47. It is the database's own clock, if there is one."""

    def ahead_of_clock(self, *, now: int | None = None) -> AheadOfClock:
        """Count what a clock ahead of this one has set. S48. Exactly what a sweep would doubt or clamp."""

    def maintenance(self) -> MaintenanceRecord | None:
        """Return the record of the last maintenance round; None before the first. S49. As last set."""

    def record_maintenance(self, record: MaintenanceRecord) -> None:
        """Store the record of the last maintenance round: S49."""

    def forecast_log(self) -> ForecastLog:
        """Return what became of the newest forecasts of starts; empty before the first."""

    def add_forecasts(self, outcomes: Sequence[ForecastOutcome]) -> None:
        """Add outcomes to the log of forecasts.

        S71. Equals `ForecastLog.add`, one call after another: concurrent calls lose nothing.
        """

    def prunable(self, before: int, *, customer: str | None = None, up_to: int | None = None) -> int:
        """Count the ended documents that `prune` without a limit would delete. S50. Deletes nothing."""

    def prune(
        self,
        before: int,
        *,
        limit: int,
        customer: str | None = None,
        up_to: int | None = None,
        now: int | None = None,
    ) -> PruneResult:
        """Delete up to `limit` documents that ended, and up to `limit` events, before a time, and expired keys.

        S28. Waiting and running documents stay, and so do events with an operator. With a customer, only its documents
             are deleted; without, customers with a `keep` of their own are left out. With `up_to`, no document with a
             higher seq is deleted, whatever its times are.
        S80. Parts stay until their document ended before that time, too, or is gone.
        """

    def backup(self, path: Path) -> None:
        """Write a consistent copy that opens as a store of the same kind. S29. Other calls continue meanwhile."""

    def recount(self, *, repair: bool, now: int | None = None) -> tuple[Discrepancy, ...]:
        """Compare all stored counters with the documents, and correct them if `repair`. S30. They always agree."""

    def close(self) -> None:
        """Close files and connections."""
