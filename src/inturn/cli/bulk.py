"""`inturn retry` and `inturn cancel`: change documents by id or by filter."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Final, NamedTuple

import typer

from inturn.cli import failures
from inturn.cli.lists import PartsOption, clean_parent
from inturn.cli.session import Session
from inturn.cli.time_range import ByTime, Since, Until, in_time_range
from inturn.errors import IllegalTransitionError, InvalidInputError, NotFoundError
from inturn.ids import clean_id
from inturn.model import CANCELLABLE, RETRYABLE, DocumentState, Receipt
from inturn.store_types import DocumentFilter, DocumentTime, PartsChoice


class BulkAction(NamedTuple):
    """An action on documents: its texts and the states it applies to."""

    verb: str
    confirm_text: str
    dry_run_text: str
    done_text: str
    allowed_states: frozenset[DocumentState]
    default_states: frozenset[DocumentState]
    """States without --state."""


CANCEL: Final = BulkAction("cancel", "cancel_ask", "cancel_would", "cancel_did", CANCELLABLE, CANCELLABLE)
RETRY: Final = BulkAction(
    *("retry", "retry_ask", "retry_would", "retry_did"),
    RETRYABLE,
    RETRYABLE - {DocumentState.CANCELLED},  # cancelled on purpose
)
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of documents.")]
Customer = Annotated[str | None, typer.Option("--customer", help="All of this customer.")]
State = Annotated[list[DocumentState] | None, typer.Option("--state", help="With this status; may be given again.")]
Batch = Annotated[str | None, typer.Option("--batch", help="All of this batch.")]
Group = Annotated[str | None, typer.Option("--group", help="All of this group.")]
Queue = Annotated[str | None, typer.Option("--queue", help="All in this queue, parts included.")]
Parent = Annotated[str | None, typer.Option("--parent", metavar="ID", help="All parts of this document.")]
FromStart = Annotated[
    bool, typer.Option("--from-start", help="Begin with the first step, without results and parts of earlier ones.")
]
Text = Annotated[str | None, typer.Option("--text", help="With this in their name.")]
ErrorKind = Annotated[
    str | None,
    typer.Option("--error", help="Failed with this kind of error: an id of inturn failures, or a part of the error."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count the documents.")]


def cancel(  # noqa: PLR0913 - one option for each filter
    session: Session,
    ids: Ids = None,
    *,
    customer: Customer = None,
    state: State = None,
    batch: Batch = None,
    group: Group = None,
    queue: Queue = None,
    parent: Parent = None,
    parts: PartsOption = None,
    text: Text = None,
    since: Since = None,
    until: Until = None,
    by_time: ByTime = DocumentTime.SUBMITTED,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Cancel documents that have not finished.

    Give their ids, or a filter for all that match.
    """
    chosen = DocumentFilter(None, customer, None, batch, text, group, queue=queue, parent=clean_parent(parent))
    where = _build_filter(CANCEL, ids, state, in_time_range(session, chosen, by_time, since, until), parts)
    job = _BulkJob(session, CANCEL, yes=yes, dry_run=dry_run)
    if where is None:
        job.by_ids(ids or [], session.queue.cancel_many)
    else:
        job.by_filter(where, session.queue.cancel_all)


def retry(  # noqa: PLR0913 - one option for each filter
    session: Session,
    ids: Ids = None,
    *,
    customer: Customer = None,
    state: State = None,
    batch: Batch = None,
    group: Group = None,
    queue: Queue = None,
    parent: Parent = None,
    parts: PartsOption = None,
    text: Text = None,
    since: Since = None,
    until: Until = None,
    by_time: ByTime = DocumentTime.ENDED,
    error: ErrorKind = None,
    from_start: FromStart = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Try failed, expired or cancelled documents again.

    Give their ids, or a filter for all that match. Each gets a new level, and begins with the step that it stopped at.
    """
    if error is not None:
        if ids or customer or state or batch or group or queue or parent or parts or text:
            raise InvalidInputError("--error goes with --since and --until alone")
        ids = [failure.id for failure in failures.members(session, error, since, until)]
        _BulkJob(session, RETRY, yes=yes, dry_run=dry_run).by_error(ids, from_start=from_start)
        return
    chosen = DocumentFilter(None, customer, None, batch, text, group, queue=queue, parent=clean_parent(parent))
    where = _build_filter(RETRY, ids, state, in_time_range(session, chosen, by_time, since, until), parts)
    job = _BulkJob(session, RETRY, yes=yes, dry_run=dry_run)
    if where is None:
        job.by_ids(ids or [], partial(session.queue.retry_many, from_start=from_start))
    else:
        job.by_filter(where, partial(session.queue.retry_all, from_start=from_start))


def _build_filter(
    action: BulkAction,
    ids: Sequence[str] | None,
    states: Sequence[DocumentState] | None,
    base_filter: DocumentFilter,
    parts: PartsChoice | None,
) -> DocumentFilter | None:
    """The filter, or None if documents are named by id."""
    is_filter = states or parts or any(value is not None for value in base_filter)
    if bool(ids) == bool(is_filter):
        raise InvalidInputError(
            "name documents by id, or give a filter such as --customer, --state, --batch or --since, but not both"
        )
    if ids:
        return None
    chosen = frozenset(states) if states else action.default_states
    if not chosen <= action.allowed_states:
        allowed = ", ".join(sorted(action.allowed_states))
        raise InvalidInputError(f"{action.verb} is for documents that are {allowed}, not {', '.join(sorted(chosen))}")
    return base_filter._replace(states=chosen).with_parts(parts)


class _BulkJob:
    """One run of retry or cancel."""

    def __init__(self, session: Session, action: BulkAction, *, yes: bool, dry_run: bool) -> None:
        self._session = session
        self._action = action
        self._yes = yes
        self._dry_run = dry_run

    def by_filter(self, where: DocumentFilter, run: Callable[..., int]) -> None:
        """Count the matching documents, ask for confirmation, and change them."""
        operator = self._session.operator
        n = sum(self._session.queue.counts(where).states.values())
        if self._should_run(n, needs_confirmation=n > 0):
            self._print_done(run(where, operator) if n else 0)

    def by_error(self, ids: Sequence[str], *, from_start: bool) -> None:
        """Retry the documents of a kind of error, after confirmation; those retried meanwhile are skipped."""
        operator = self._session.operator
        if self._should_run(len(ids), needs_confirmation=True):
            self._print_done(self._session.queue.retry_in_chunks(ids, operator, from_start=from_start))

    def by_ids(self, raw_ids: Sequence[str], run: Callable[..., Sequence[str] | Sequence[Receipt]]) -> None:
        """Change documents by id; several need confirmation. Raise for those that could not be changed."""
        ids, operator = list(dict.fromkeys(clean_id(id_) for id_ in raw_ids)), self._session.operator
        if not self._should_run(len(ids), needs_confirmation=len(ids) > 1):
            return
        done = {changed if isinstance(changed, str) else changed.id for changed in run(ids, operator)}
        refused = [self._describe_refusal(id_) for id_ in ids if id_ not in done]
        if len(ids) > 1 or not refused:
            self._print_done(len(done))
        if refused:
            raise IllegalTransitionError("; ".join(refused))

    def _should_run(self, n: int, *, needs_confirmation: bool) -> bool:
        """Print the number with --dry-run; otherwise ask for confirmation if needed."""
        session, action = self._session, self._action
        if self._dry_run:
            if session.as_json:
                session.emit({"documents": n, "done": False})
            else:
                session.print_text(action.dry_run_text, n=n)
            return False
        if self._yes or not needs_confirmation:
            return True
        if not sys.stdin.isatty():
            documents = "1 document" if n == 1 else f"{n} documents"
            raise InvalidInputError(
                f"{action.verb} asks before it changes {documents}, and there is no terminal to ask on;"
                f" give --yes to do it, or --dry-run to see how many"
            )
        if not confirm(session, session.texts.text(action.confirm_text, n=n)):
            raise IllegalTransitionError("nothing was changed")
        return True

    def _describe_refusal(self, id_: str) -> str:
        try:
            document = self._session.queue.document(id_)
        except NotFoundError as error:
            return str(error)
        if document.parent is not None and document.state in self._action.allowed_states:
            return f"document {id_} is a part of {document.parent}, which has gone on without it; retry that one"
        if self._action is RETRY and document.state is DocumentState.DONE:
            return f"document {id_} is done and cannot be retried; to process it again, submit it again"
        states = ", ".join(sorted(self._action.allowed_states))
        return f"document {id_} is {document.state}; {self._action.verb} is for those that are {states}"

    def _print_done(self, n: int) -> None:
        if self._session.as_json:
            self._session.emit({"documents": n, "done": True})
        else:
            self._session.print_text(self._action.done_text, n=n)


def confirm(session: Session, question: str) -> bool:
    """Ask a question; accept yes in the user's language or in English, or its first letter."""
    yes, no = session.texts.text("yes"), session.texts.text("no")
    typed = typer.prompt(f"{question} ({yes}/{no})", default=no, show_default=False, err=True)
    return typed.strip().casefold() in {yes, yes[0], "yes", "y"}
