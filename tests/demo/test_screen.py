"""What is seen while it runs."""

import io

import pytest
from rich.console import Console

from demo.display import CustomerProgress, ProgressDisplay, progress_bar, progress_by_customer
from demo.workload import CUSTOMERS
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.stores import open_store

STANDING = [CustomerProgress(name, 224, 100, 1, 50, 9) for name in CUSTOMERS]


def console(width: int = 80, *, terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), width=width, height=24, force_terminal=terminal, color_system=None)


def said(by: Console) -> str:
    assert isinstance(by.file, io.StringIO)
    return by.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_a_bar_for_each_customer_on_a_terminal(width: int) -> None:
    by = console(width)
    with ProgressDisplay(by) as screen:
        screen.show_preparing(3, 10)
        screen.show(STANDING)
    assert "making documents: 3 of 10" in said(by)
    for name in CUSTOMERS:
        assert name in said(by)
    assert "…" not in said(by)
    assert "300 of 1344 documents done" in said(by)


def test_plain_lines_elsewhere_and_not_one_for_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    by, now = console(1_000, terminal=False), [0.0]
    monkeypatch.setattr("demo.display.time.monotonic", lambda: now[0])
    with ProgressDisplay(by) as screen:
        screen.show_preparing(3, 10)
        screen.start_clock()
        for done in range(13):
            now[0] = done / 2
            screen.show([CustomerProgress("acme", 20, 1, 1, done, 1)])
    assert said(by).splitlines() == [
        "   2 s  4 of 20 done, 2.0 documents/s: acme 4/20",
        "   4 s  8 of 20 done, 2.0 documents/s: acme 8/20",
        "   6 s  12 of 20 done, 2.0 documents/s: acme 12/20",
    ]


@pytest.mark.parametrize("done", [0, 1, 4, 199, 224])
@pytest.mark.parametrize("running", [0, 2])
def test_a_bar_is_as_wide_as_it_must_be(done: int, running: int) -> None:
    waiting = 224 - done - running
    if waiting < 0:
        return
    drawn = progress_bar({"done": done, "running": running, "waiting": waiting}, 224, 30, console()).plain
    assert len(drawn) == 30
    assert "." not in drawn
    assert ("█" in drawn, "▓" in drawn, "▒" in drawn) == (done > 0, running > 0, waiting > 0)


def test_what_is_to_come_is_dotted() -> None:
    assert progress_bar({"done": 1}, 10, 20, console()).plain == "██" + "." * 18
    assert progress_bar({}, 10, 20, console()).plain == "." * 20


def test_standings_count_what_waits_runs_and_has_ended() -> None:
    with Queue(open_store("memory://")) as queue:
        queue.submit("acme", [NewDocument(f"{n}") for n in range(4)])
        first, _ = queue.claim("worker", 2)
        queue.finish(first, {"pages": 1})
        assert progress_by_customer(queue, {"acme": 5, "later": 3}, {"acme": 2}) == [
            CustomerProgress("acme", 5, 2, 1, 1, 2),
            CustomerProgress("later", 3, 0, 0, 0, None),
        ]
