"""`inturn retry` and `inturn cancel`: one document, several, or all that match."""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Final, NamedTuple

import typer

from inturn.cli.session import Session
from inturn.errors import IllegalMoveError, InvalidInputError, NotFoundError
from inturn.ids import clean_id
from inturn.model import CANCELLABLE, RETRYABLE, DocumentState, Receipt
from inturn.store import DocumentFilter


class Act(NamedTuple):
    """What is done to documents, and the words for it."""

    verb: str
    ask: str
    """Texts: the question, the number beforehand, the number afterwards."""
    would: str
    did: str
    allowed: frozenset[DocumentState]
    usual: frozenset[DocumentState]
    """Without --state."""


CANCEL: Final = Act("cancel", "cancel_ask", "cancel_would", "cancel_did", CANCELLABLE, CANCELLABLE)
RETRY: Final = Act(
    *("retry", "retry_ask", "retry_would", "retry_did"),
    RETRYABLE,
    RETRYABLE - {DocumentState.CANCELLED},  # somebody cancelled those on purpose
)
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Ids of documents.")]
Customer = Annotated[str | None, typer.Option("--customer", help="All of this customer.")]
State = Annotated[list[DocumentState] | None, typer.Option("--state", help="In this state; may be given again.")]
Batch = Annotated[str | None, typer.Option("--batch", help="All of this batch.")]
Text = Annotated[str | None, typer.Option("--text", help="With this in their name.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell how many, and do nothing.")]


def cancel(  # noqa: PLR0913 - one option for each filter
    session: Session,
    ids: Ids = None,
    *,
    customer: Customer = None,
    state: State = None,
    batch: Batch = None,
    text: Text = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Cancel documents that have not ended: by id, or all that match."""
    where = _where(CANCEL, ids, state, DocumentFilter(None, customer, None, batch, text))
    job = _Job(session, CANCEL, yes=yes, dry_run=dry_run)
    if where is None:
        job.by_ids(ids or [], session.queue.store.cancel)
    else:
        job.by_filter(where, session.queue.cancel_all)


def retry(  # noqa: PLR0913 - one option for each filter
    session: Session,
    ids: Ids = None,
    *,
    customer: Customer = None,
    state: State = None,
    batch: Batch = None,
    text: Text = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Try documents again that failed, expired or were cancelled: by id, or all that match. Each is a new check."""
    where = _where(RETRY, ids, state, DocumentFilter(None, customer, None, batch, text))
    job = _Job(session, RETRY, yes=yes, dry_run=dry_run)
    if where is None:
        job.by_ids(ids or [], session.queue.store.retry)
    else:
        job.by_filter(where, session.queue.retry_all)


def _where(
    act: Act, ids: Sequence[str] | None, states: Sequence[DocumentState] | None, given: DocumentFilter
) -> DocumentFilter | None:
    """The filter, or None if documents are named by id."""
    is_filter = states or any(each is not None for each in given)
    if bool(ids) == bool(is_filter):
        raise InvalidInputError(
            "name documents by id, or give a filter such as --customer, --state, --batch or --text; not both"
        )
    if ids:
        return None
    chosen = frozenset(states) if states else act.usual
    if not chosen <= act.allowed:
        fit = ", ".join(sorted(act.allowed))
        raise InvalidInputError(f"{act.verb} is for documents that are {fit}, not {', '.join(sorted(chosen))}")
    return given._replace(states=chosen)


class _Job:
    """One run of one of the two."""

    def __init__(self, session: Session, act: Act, *, yes: bool, dry_run: bool) -> None:
        self._session = session
        self._act = act
        self._yes = yes
        self._dry_run = dry_run

    def by_filter(self, where: DocumentFilter, run: Callable[..., int]) -> None:
        """All that match: counted, asked about, done."""
        operator = self._session.operator
        n = sum(self._session.queue.counts(where).states.values())
        if self._goes_on(n, asks=n > 0):
            self._tell(run(where, operator) if n else 0)

    def by_ids(self, given: Sequence[str], run: Callable[..., Sequence[str] | Sequence[Receipt]]) -> None:
        """Named ones: asked about only if there are several; each that was passed over is told."""
        ids, operator = list(dict.fromkeys(clean_id(each) for each in given)), self._session.operator
        if not self._goes_on(len(ids), asks=len(ids) > 1):
            return
        done = {each if isinstance(each, str) else each.id for each in run(ids, operator)}
        refused = [self._why_not(each) for each in ids if each not in done]
        if len(ids) > 1 or not refused:
            self._tell(len(done))
        if refused:
            raise IllegalMoveError("; ".join(refused))

    def _goes_on(self, n: int, *, asks: bool) -> bool:
        """Tell how many and ask, as far as that is wanted."""
        session, act = self._session, self._act
        if self._dry_run:
            if session.as_json:
                session.emit({"documents": n, "done": False})
            else:
                session.say(act.would, n=n)
            return False
        if self._yes or not asks:
            return True
        if not sys.stdin.isatty():
            raise InvalidInputError(
                f"{act.verb} asks before it changes {n} documents, and there is no terminal to ask on;"
                f" give --yes to do it, or --dry-run to see how many"
            )
        if not agrees(session, session.texts.text(act.ask, n=n)):
            raise IllegalMoveError("nothing was changed")
        return True

    def _why_not(self, id_: str) -> str:
        try:
            document = self._session.queue.document(id_)
        except NotFoundError as unknown:
            return str(unknown)
        states = ", ".join(sorted(self._act.allowed))
        return f"document {id_} is {document.state}; {self._act.verb} is for those that are {states}"

    def _tell(self, n: int) -> None:
        if self._session.as_json:
            self._session.emit({"documents": n, "done": True})
        else:
            self._session.say(self._act.did, n=n)


def agrees(session: Session, question: str) -> bool:
    """Ask; only the reader's word for yes, or its first letter, is one."""
    yes, no = session.texts.text("yes"), session.texts.text("no")
    typed = typer.prompt(f"{question} ({yes}/{no})", default=no, show_default=False, err=True)
    return typed.strip().casefold() in {yes, yes[0], "yes", "y"}
