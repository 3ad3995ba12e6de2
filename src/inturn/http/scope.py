"""Restrict every read and change to the documents of the caller.

A document of another customer gets the same 404 as one that does not exist.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Final

from fastapi import Depends, Query, Request

from inturn.errors import IllegalTransitionError, InvalidInputError, NotFoundError
from inturn.http.auth import AnyCaller, Caller
from inturn.http.errors import NO_SUCH_ADDRESS
from inturn.http.state import AppState, get_app_state
from inturn.ids import clean_id
from inturn.insights import Why
from inturn.model import DEFAULT_QUEUE, Customer, Document, DocumentState, NewDocument, Receipt, clean_queue
from inturn.store_answers import Counts, Page, SearchResult
from inturn.store_types import DocumentFilter, DocumentSort, Operator, PartsChoice, Submission
from inturn.values import clean_text
from inturn.worker_report import Progress

NO_DOCUMENT: Final = "there is no such document"
NO_CUSTOMER: Final = "there is no such customer"
NO_BATCH: Final = "there is no such batch"
MAX_WHY_LENGTH: Final = 1_000


class CallerScope:
    """The queue, restricted to one caller."""

    def __init__(self, app_state: AppState, caller: Caller, why: str = "") -> None:
        self.app_state = app_state
        self.caller = caller
        self._why = why

    @property
    def operator(self) -> Operator:
        """The caller as the audit log names it."""
        caller = self.caller
        name = f"customer {caller.customer}"[:255] if caller.customer is not None else caller.name
        return Operator(name, clean_text("why", self._why, MAX_WHY_LENGTH) if self._why else "")

    def document(self, id_: str) -> Document:
        """Read a document of the caller."""
        try:
            document = self.app_state.queue.document(id_)
        except (NotFoundError, InvalidInputError):
            raise NotFoundError(NO_DOCUMENT) from None
        if not self._is_own(document.customer):
            raise NotFoundError(NO_DOCUMENT)
        return document

    def documents_by_id(self, ids: Sequence[str]) -> list[Document]:
        """Read the caller's documents among these ids, newest first; unknown ids are skipped."""
        documents: dict[str, Document] = {}
        for id_ in ids:
            with suppress(NotFoundError):
                document = self.document(id_)
                documents[document.id] = document
        return sorted(documents.values(), key=lambda document: document.seq, reverse=True)

    def progress(self, document: Document) -> Progress | None:
        """Return the progress that the document's worker last reported."""
        if document.state is not DocumentState.RUNNING:
            return None
        reports = (worker.report for worker in self.app_state.queue.workers())
        return next((report.progress.get(document.id) for report in reports if report.name == document.worker), None)

    def documents(self, where: DocumentFilter, limit: int, after: str | None, sort: DocumentSort) -> Page[Document]:
        """List documents. Cursors are ids: a sequence number would disclose the traffic of other customers."""
        cursor = None if after is None else str(self._cursor(after))
        page = self.app_state.queue.documents(self.restrict_filter(where), limit=limit, after=cursor, sort=sort)
        return Page(page.items, page.items[-1].id if page.next is not None else None)

    def counts(self, where: DocumentFilter) -> Counts:
        """Count the caller's matching documents by state."""
        return self.app_state.queue.counts(self.restrict_filter(where))

    def search(self, text: str, limit: int, parts: PartsChoice) -> SearchResult:
        """Search what the caller may see."""
        return self.app_state.queue.search(text, limit=limit, customer=self.caller.customer, parts=parts)

    def restrict_filter(self, where: DocumentFilter) -> DocumentFilter:
        """Restrict a filter to the caller's documents."""
        customer, batch, text = (
            None if value is None else clean_text(name, value)
            for name, value in (("customer", where.customer), ("batch", where.batch), ("text", where.text))
        )
        if customer is not None and not self._is_own(customer):
            raise NotFoundError(NO_CUSTOMER)
        if self.caller.customer is not None:
            customer = self.caller.customer
        queue = None if where.queue is None else clean_queue(where.queue)
        parent = None if where.parent is None else clean_id(where.parent)
        return where._replace(customer=customer, batch=batch, text=text, queue=queue, parent=parent)

    def part_counts(self, document: Document) -> Counts:
        """Count the parts of a document by state."""
        return self.app_state.queue.counts(DocumentFilter(customer=document.customer, parent=document.id))

    def resolve_customer(self, customer: str | None) -> str:
        """Return the customer of a submission: that of the key, or the one that an operator names."""
        if customer is not None and not self._is_own(clean_text("customer", customer)):
            raise NotFoundError(NO_CUSTOMER)
        owner = customer if self.caller.customer is None else self.caller.customer
        if owner is None:
            raise InvalidInputError("`customer` is missing: an operator must name it")
        return clean_text("customer", owner)

    def customer(self, name: str) -> Customer:
        """Read a customer that the caller may see."""
        try:
            clean = clean_text("customer", name)
            if self._is_own(clean):
                return self.app_state.queue.customer(clean)
        except (NotFoundError, InvalidInputError):
            pass
        raise NotFoundError(NO_CUSTOMER)

    def why(self, id_: str) -> Why:
        """Explain a document's position, and record the estimated start for later comparison."""
        why = self.app_state.insights.why(self.document(id_).id)
        self.app_state.estimates.record(why)
        return why

    def batch(self, name: str) -> Counts:
        """Count the caller's documents of a batch by state, without their parts."""
        try:
            counts = self.counts(DocumentFilter(batch=name, parts=False))
        except InvalidInputError:
            raise NotFoundError(NO_BATCH) from None
        if not counts.states:
            raise NotFoundError(NO_BATCH)
        return counts

    def submission(self, customer: str, documents: Sequence[NewDocument], idempotency_key: str | None) -> Submission:
        """Build a submission. Only an operator may give delay, start_by and cost, and name queues that do not exist."""
        if not self.caller.is_operator:
            for document in documents:
                if document.delay or document.start_by is not None or document.cost != 1:
                    raise InvalidInputError("delay, start_by and cost are for operators; leave them out")
            self._require_queues({queue for document in documents for queue in document.steps})
        return self.app_state.queue.submission(customer, documents, idempotency_key)

    def cancel(self, id_: str) -> Document:
        """Cancel one document."""
        self.app_state.queue.cancel(self.document(id_).id, self.operator)
        return self.document(id_)

    def retry(self, id_: str, *, from_start: bool) -> Receipt:
        """Retry one document."""
        return self.app_state.queue.retry(self.document(id_).id, self.operator, from_start=from_start)

    def expedite(self, id_: str, *, undo: bool) -> Document:
        """Move one document before all levels, or back to its place; operators only."""
        if not self.caller.is_operator:
            raise NotFoundError(NO_SUCH_ADDRESS)
        self.app_state.queue.expedite(self.document(id_).id, self.operator, undo=undo)
        return self.document(id_)

    def _require_queues(self, names: set[str]) -> None:
        """Refuse queues that do not exist: a customer could otherwise use up the number of queues."""
        insights, now = self.app_state.insights, self.app_state.clock.now()
        for fresh in (False, True):
            unknown = names - {DEFAULT_QUEUE}
            if unknown:
                unknown -= {status.name for status in insights.queues(now, fresh=fresh)}
            if not unknown:
                return
        raise InvalidInputError(f"there is no queue {min(unknown)!r}; an operator makes it")

    def _cursor(self, after: str) -> int:
        try:
            return self.document(after).seq
        except NotFoundError:
            raise InvalidInputError("`after` is not a cursor of this list; use the `next` of a page") from None

    def _is_own(self, customer: str) -> bool:
        return self.caller.customer is None or self.caller.customer == customer


def require_done(document: Document) -> None:
    """Refuse a document that has no result."""
    if document.state is DocumentState.SPLIT:
        raise IllegalTransitionError(
            "the document is split: it has no result until its parts have ended; see its parts, and the results of its"
            " steps"
        )
    if document.state is not DocumentState.DONE:
        raise IllegalTransitionError(f"the document is {document.state}: it has no result")


def write_scope(
    request: Request,
    caller: AnyCaller,
    why: Annotated[str, Query(max_length=MAX_WHY_LENGTH, description="The reason, for the audit log.")] = "",
) -> CallerScope:
    """Build the scope of a change, with the reason for the audit log."""
    return CallerScope(get_app_state(request), caller, why)


async def read_scope(request: Request, caller: AnyCaller) -> CallerScope:
    """Build the scope of a read."""
    return CallerScope(get_app_state(request), caller)


ReadScope = Annotated[CallerScope, Depends(read_scope)]
WriteScope = Annotated[CallerScope, Depends(write_scope)]
