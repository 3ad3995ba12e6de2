"""Waits for documents to end: a bar in a terminal, a line for each when piped, an object for each as JSON."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from inturn.cli.output import Column, first_line, print_table
from inturn.cli.session import Session
from inturn.errors import NotFoundError
from inturn.i18n import Texts
from inturn.model import ENDED, SECOND, DocumentState
from inturn.prose import STATES

PURGED: Final = "it was deleted meanwhile"
SHOWN: Final = 20
QUICKEST: Final = 0.2
SLOWEST: Final = 5.0
SILENT_AFTER: Final = 60 * SECOND
"""A worker that was not heard of for so long is not counted on."""


class Ended(NamedTuple):
    """How a document ended."""

    id: str
    name: str
    state: DocumentState
    error: str | None


@contextmanager
def bar(session: Session, key: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal, nothing where nobody looks; what it gives is called with how many more are done."""
    console = Console(stderr=True)
    is_shown = console.is_terminal and not session.as_json
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        task = progress.add_task(session.texts.text(key), total=total)
        yield lambda n: progress.advance(task, n)


def watch(session: Session, names: Mapping[str, str]) -> None:
    """Wait until all of these have ended, and tell how; ends the command with 1 if any did not succeed."""
    warn_without_workers(session)
    ended: list[Ended] = []
    with bar(session, "processing", len(names)) as advance:
        for each in _ends(session, dict(names)):
            ended.append(each)
            advance(1)
            _tell_one(session, each)
    states = Counter(each.state for each in ended)
    if not session.as_json:
        _tell_failed(session, [each for each in ended if each.state is not DocumentState.DONE])
        session.say("all_ended", n=len(ended), parts=in_parts(states, session.texts))
    end_by(states)


def end_by(states: Mapping[DocumentState, int]) -> None:
    """End the command with 1 unless all succeeded."""
    if any(n for state, n in states.items() if state is not DocumentState.DONE):
        raise typer.Exit(1)


def in_parts(states: Mapping[DocumentState, int], texts: Texts) -> str:
    """States with their numbers, in the order of a document's life."""
    found = [(state, states.get(state, 0)) for state in DocumentState]
    return ", ".join(f"{texts.text(STATES[state])} {texts.number(n)}" for state, n in found if n)


def warn_without_workers(session: Session) -> None:
    """Whoever waits should know that nobody works."""
    newest = max((each.seen_at for each in session.queue.store.workers()), default=0)
    if newest < time.time() * SECOND - SILENT_AFTER:
        session.warn(session.texts.text("no_worker"))


def rest(cost: float) -> None:
    """Sleep between two looks, the longer the more a look costs."""
    time.sleep(min(SLOWEST, max(QUICKEST, 20 * cost)))


def _ends(session: Session, names: dict[str, str]) -> Iterator[Ended]:
    while names:
        began = time.monotonic()
        for id_, name in list(names.items()):
            try:
                document = session.queue.document(id_)
            except NotFoundError:
                yield Ended(id_, names.pop(id_), DocumentState.CANCELLED, PURGED)
                continue
            if document.state in ENDED:
                yield Ended(id_, name, document.state, document.error)
                del names[id_]
        if names:
            rest(time.monotonic() - began)


def _tell_one(session: Session, ended: Ended) -> None:
    if session.as_json:
        session.emit({"id": ended.id, "state": str(ended.state), "error": ended.error})
    elif not session.console.is_terminal:
        words = [session.texts.text(STATES[ended.state]), ended.id, ended.name, first_line(ended.error)]
        session.write("  ".join(filter(None, words)))


def _tell_failed(session: Session, failed: list[Ended]) -> None:
    if not failed or not session.console.is_terminal:
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_document")),
        Column(texts.text("head_state")),
        Column(texts.text("head_name"), folds=True),
        Column(texts.text("head_why"), folds=True),
    ]
    rows = [(each.id, texts.text(STATES[each.state]), each.name, first_line(each.error)) for each in failed[:SHOWN]]
    print_table(session.console, columns, rows)
