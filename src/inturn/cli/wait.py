"""Wait for documents to end: a bar in a terminal, a line each when piped, an object each with --json."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import typer

from inturn.cli.output import Column, first_line, print_table
from inturn.cli.progress import progress_bar as progress_bar  # noqa: PLC0414 - transfer.py imports it from here
from inturn.cli.session import Session
from inturn.clock import SystemClock
from inturn.errors import NotFoundError
from inturn.i18n import Texts
from inturn.insights.explain import STATE_TEXT_KEYS
from inturn.model import ENDED, DocumentState
from inturn.values import SECOND

PURGED_ERROR: Final = "it was deleted while it was waited for"
MAX_FAILURES_SHOWN: Final = 20
MIN_POLL_SECONDS: Final = 0.2
MAX_POLL_SECONDS: Final = 5.0
POLL_COST_FACTOR: Final = 20
"""A pause between two polls takes at least so many times as long as the poll."""
WORKER_LIVE_FOR: Final = 60 * SECOND
"""A worker counts as live for so long after its last report."""


class EndedDocument(NamedTuple):
    """How a document ended."""

    id: str
    name: str
    state: DocumentState
    error: str | None


def wait_for_documents(session: Session, names: Mapping[str, str]) -> None:
    """Wait until all documents have ended and print their states; exit with 1 if any did not succeed."""
    warn_if_no_workers(session)
    ended: list[EndedDocument] = []
    with progress_bar(session, "processing", len(names)) as advance:
        for ended_document in _ended_documents(session, dict(names)):
            ended.append(ended_document)
            advance(1)
            _print_ended(session, ended_document)
    states = Counter(ended_document.state for ended_document in ended)
    if not session.as_json:
        _print_failed(
            session, [ended_document for ended_document in ended if ended_document.state is not DocumentState.DONE]
        )
        session.print_text("all_ended", n=len(ended), parts=describe_states(states, session.texts))
    exit_unless_all_done(states)


def exit_unless_all_done(states: Mapping[DocumentState, int]) -> None:
    """Exit with 1 unless all succeeded."""
    if any(n for state, n in states.items() if state is not DocumentState.DONE):
        raise typer.Exit(1)


def describe_states(states: Mapping[DocumentState, int], texts: Texts) -> str:
    """Join states and their numbers, in the order of a document's life."""
    counts = [(state, states.get(state, 0)) for state in DocumentState]
    return ", ".join(f"{texts.text(STATE_TEXT_KEYS[state])} {texts.number(n)}" for state, n in counts if n)


def count_live_workers(session: Session) -> int:
    """Count the workers that reported lately."""
    oldest = SystemClock().now() - WORKER_LIVE_FOR
    return sum(worker.seen_at >= oldest for worker in session.queue.workers())


def warn_if_no_workers(session: Session) -> None:
    """Warn that the documents to wait for will not be processed."""
    if not count_live_workers(session):
        session.warn(session.texts.text("no_worker"))


def sleep_between_polls(poll_seconds: float) -> None:
    """Sleep between two polls, longer if a poll is slow."""
    time.sleep(min(MAX_POLL_SECONDS, max(MIN_POLL_SECONDS, POLL_COST_FACTOR * poll_seconds)))


def _ended_documents(session: Session, names: dict[str, str]) -> Iterator[EndedDocument]:
    while names:
        began = time.monotonic()
        for id_, name in list(names.items()):
            try:
                document = session.queue.document(id_)
            except NotFoundError:
                yield EndedDocument(id_, names.pop(id_), DocumentState.CANCELLED, PURGED_ERROR)
                continue
            if document.state in ENDED:
                yield EndedDocument(id_, name, document.state, document.error)
                del names[id_]
        if names:
            sleep_between_polls(time.monotonic() - began)


def _print_ended(session: Session, ended: EndedDocument) -> None:
    if session.as_json:
        session.emit({"id": ended.id, "state": str(ended.state), "error": ended.error})
    elif not session.console.is_terminal:
        words = [session.texts.text(STATE_TEXT_KEYS[ended.state]), ended.id, ended.name, first_line(ended.error)]
        session.write("  ".join(filter(None, words)))


def _print_failed(session: Session, failed: list[EndedDocument]) -> None:
    if not failed or not session.console.is_terminal:
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_document")),
        Column(texts.text("head_state")),
        Column(texts.text("head_name"), folds=True),
        Column(texts.text("head_why"), folds=True),
    ]
    rows = [
        (
            ended_document.id,
            texts.text(STATE_TEXT_KEYS[ended_document.state]),
            ended_document.name,
            first_line(ended_document.error),
        )
        for ended_document in failed[:MAX_FAILURES_SHOWN]
    ]
    print_table(session.console, columns, rows)
