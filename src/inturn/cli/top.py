"""`inturn top`: the queue as it goes on, in a terminal."""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated, Final

import typer
from rich.live import Live

from inturn.cli.json_output import live_record
from inturn.cli.session import Session
from inturn.cli.top_view import print_plain, render_screen
from inturn.errors import StoreError
from inturn.insights import LiveView, Shares

REFRESH_INTERVAL_SECONDS: Final = 1.0
REFRESH_COST_FACTOR: Final = 20
"""The pause between two refreshes is at least so many times as long as a refresh."""


def top(
    session: Session,
    *,
    once: Annotated[bool, typer.Option("--once", help="Show it once and exit.")] = False,
) -> None:
    """Watch levels, customers and workers live.

    Refreshes every second. Press q to quit.
    """
    insights = session.insights
    if session.as_json:
        session.emit(live_record(insights.live(), insights.shares()))
    elif once or not session.console.is_terminal:
        print_plain(session.console, insights.live(), insights.shares(), session.texts)
    else:
        _run_live(session, lambda: (insights.live(), insights.shares()))


def _run_live(session: Session, read_view: Callable[[], tuple[LiveView, Shares]]) -> None:
    """Refresh the screen, less often if a read is slow; an error of the store is shown and the read repeated."""
    (view, shares), error = read_view(), ""
    live = Live(console=session.console, screen=True, auto_refresh=False)
    with suppress(KeyboardInterrupt), _exit_on_sigterm(), _quit_key_waiter() as quit_pressed, live:
        while True:
            began = time.monotonic()
            try:
                (view, shares), error = read_view(), ""
            except StoreError as store_error:
                error = str(store_error)
            live.update(render_screen(session.console.size, view, shares, session.texts, error), refresh=True)
            if quit_pressed(max(REFRESH_INTERVAL_SECONDS, REFRESH_COST_FACTOR * (time.monotonic() - began))):
                return


@contextmanager
def _quit_key_waiter() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits so many seconds and returns whether q was pressed."""
    if not sys.stdin.isatty():
        yield _sleep
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd, termios.TCSANOW)
    try:
        yield lambda seconds: _wait_for_quit_key(fd, seconds)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _wait_for_quit_key(fd: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
        pressed = os.read(fd, 64)
        if not pressed or b"q" in pressed.lower():
            return True
    return False


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, so that the terminal is restored."""

    def end(*_: int | FrameType | None) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
