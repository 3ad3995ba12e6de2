"""Report progress on standard error: a bar in a terminal, a line every few seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from inturn.cli.session import Session
from inturn.i18n import Texts

LINE_INTERVAL_SECONDS: Final = 5.0

ProgressCallback = Callable[[int, int], None]


@contextmanager
def progress_bar(session: Session, text_key: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar in a terminal; yields a callback that takes the number of further items done."""
    console = Console(stderr=True)
    is_shown = console.is_terminal and not session.as_json
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        task = progress.add_task(session.texts.text(text_key), total=total)
        yield lambda n: progress.advance(task, n)


@contextmanager
def progress_reporter(texts: Texts) -> Iterator[Callable[[str], ProgressCallback]]:
    """Yield a factory of callbacks, one for each named step; they take done and total, 0 for an unknown total."""
    try:
        with _display(texts) as step:
            yield step
    except KeyboardInterrupt:
        typer.echo(texts.text("replay_stopped"), err=True)
        raise


@contextmanager
def _display(texts: Texts) -> Iterator[Callable[[str], ProgressCallback]]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda label: _line_reporter(label, texts)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:

        def step(label: str) -> ProgressCallback:
            task = bars.add_task(label, total=None)
            return lambda done, total: bars.update(task, completed=done, total=total or None)

        yield step


def _line_reporter(label: str, texts: Texts) -> ProgressCallback:
    printed_at = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal printed_at
        if time.monotonic() - printed_at < LINE_INTERVAL_SECONDS:
            return
        printed_at = time.monotonic()
        of = f" / {texts.number(total)}" if total else ""
        typer.echo(f"{label}: {texts.number(done)}{of}", err=True)

    return report
