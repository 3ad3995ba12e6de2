"""`inturn top` and `inturn doctor`: the queue as it goes on, and what workers find on this machine."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import inturn as package
from inturn import DocumentState, NewDocument, Operator, seconds
from inturn.cli import doctor as module
from inturn.cli.durations import format_duration
from inturn.cli.top_view import render_screen
from inturn.clock import ManualClock, SystemClock
from inturn.errors import BlobError
from inturn.i18n import LANGUAGES, Texts
from inturn.insights import Insights, LiveView, Shares
from inturn.queue import Queue
from inturn.stores import open_store
from inturn.worker_report import Progress, WorkerReport

Inturn = Callable[..., Any]
ANNA = Operator("anna", "a reason that is much too long for one line of a small terminal, and then some more of it")


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    """A flood, a paused customer, an expedited document, and two workers of which one tells its progress."""
    with package.open(str(tmp_path / "inturn.db")) as queue:
        queue.submit("flood", [NewDocument(f"document {n}") for n in range(40)])
        queue.submit("Zażółć gęślą jaźń Sp. z o.o. Oddział w Łodzi", [NewDocument("x" * 80)])
        last = queue.submit("paused", [NewDocument("p") for _ in range(4)])
        queue.expedite(last[0].id, ANNA)
        queue.pause(ANNA, "paused")
        claimed = queue.claim("w1", 3)
        reported = {claimed[0].document.id: Progress(2, 8), claimed[1].document.id: Progress(3)}
        queue.store.record_worker(WorkerReport("w1", "host", 1, 4, 3, "a:b", 0, progress=reported))
        queue.store.record_worker(WorkerReport("w2" * 30, "host", 2, 1, 0, "a:b", 0, stopping=True))
        yield queue


def view(queue: Queue) -> tuple[LiveView, Shares]:
    insights = Insights(queue)
    return insights.live(), insights.shares()


@pytest.fixture
def contended(tmp_path: Path) -> None:
    """A document of one customer has run for five minutes, while that of another waited."""
    clock = ManualClock(SystemClock().now() - seconds(301))
    with Queue(open_store(str(tmp_path / "inturn.db"), clock), clock=clock) as queue:
        queue.submit("greedy", [NewDocument("long"), NewDocument("next")])
        queue.claim("loop", 1, lease=seconds(3_600))
        queue.submit("patient", [NewDocument("short")])
        clock.advance(seconds(301))


def test_piped_it_is_shown_once(inturn_here: Inturn, queue: Queue) -> None:
    shown = inturn_here("top")
    assert shown.returncode == 0, shown.stderr
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert lines[:3] == ["Queue: running", "waiting: 42", "running: 3"]
    assert any(line.startswith("flood ") for line in lines)
    assert any("25 %" in line for line in lines)
    queue.pause(ANNA)
    assert "Queue: paused by anna" in inturn_here("top", "--once").stdout


def test_as_json_it_has_everything(inturn_here: Inturn, queue: Queue) -> None:
    queue.pause(ANNA)
    (reported,) = inturn_here("top", "--json").records
    assert (reported["paused"]["name"], reported["states"]) == ("anna", {"running": 3, "waiting": 42})
    assert reported["customers"][0]["customer"] == "flood"
    assert reported["customers"][0]["level"] == 9
    first, second = sorted(reported["workers"], key=lambda item: len(item["name"]))
    assert [item["progress"] for item in first["documents"]].count([2, 8]) == 1
    assert (second["stopping"], second["documents"]) == (True, [])


@pytest.mark.usefixtures("contended")
def test_customers_have_their_actual_and_fair_shares(inturn_here: Inturn) -> None:
    lines = [" ".join(line.split()) for line in inturn_here("top").stdout.splitlines()]
    assert "Customer Waiting Counter Next level Levels Share Fair" in lines
    assert "greedy 1 -1 1 1 > 100 % 50 %" in lines
    assert "patient 1 0 1 1 0 % 50 %" in lines
    (reported,) = inturn_here("top", "--json").records
    greedy, patient = sorted(reported["customers"], key=lambda item: str(item["customer"]))
    assert greedy["share"]["worked"] >= 300_000_000
    assert (greedy["share"]["received"], greedy["share"]["due"], greedy["share"]["is_over"]) == (1.0, 0.5, True)
    assert (patient["share"]["received"], patient["share"]["due"], patient["share"]["is_over"]) == (0.0, 0.5, False)


@pytest.mark.usefixtures("contended")
def test_customer_show_and_why_compare_the_shares(inturn_here: Inturn) -> None:
    shown = inturn_here("customer", "show", "greedy").stdout
    assert "Share of worker time: 100 % actual, 50 % fair (5 minutes" in " ".join(shown.split())
    assert "Over its share while others waited." in " ".join(shown.split())
    (record,) = inturn_here("customer", "show", "patient", "--json").records
    assert (record["share"]["received"], record["share"]["due"], record["share"]["documents"]) == (0.0, 0.5, 0)
    id_ = next(record["id"] for record in inturn_here("documents", "--json").records if record["customer"] == "patient")
    assert "Share of worker time: 0 % actual, 50 % fair (0 seconds" in " ".join(inturn_here("why", id_).stdout.split())
    assert inturn_here("why", id_, "--json").records[0]["share"]["is_over"] is False
    german = " ".join(inturn_here("why", id_, "--lang", "de").stdout.split())
    assert "Anteil an der Worker-Zeit: 0 % tatsächlich, 50 % fair" in german


def test_share_columns_need_a_wide_terminal() -> None:
    with package.open("memory://") as queue:
        queue.submit("acme", [NewDocument("a")])
        for width, is_shown in ((80, False), (160, True)):
            console = Console(width=width, height=24, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
            console.print(render_screen(console.size, *view(queue), Texts(), ""))
            assert ("Fair" in console.export_text()) is is_shown
            console.file.close()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("size", [(80, 24), (100, 30), (200, 60), (60, 15)])
def test_the_screen_fits_the_terminal_in_every_language(queue: Queue, language: str, size: tuple[int, int]) -> None:
    queue.pause(ANNA)
    console = Console(width=size[0], height=size[1], file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115, PTH123
    lines = console.render_lines(render_screen(console.size, *view(queue), Texts(language), ""), pad=False)
    text = ["".join(part.text for part in line) for line in lines]
    if size[1] >= 24:
        assert len(text) <= size[1]
        assert "flood" in "\n".join(text)
        assert "25 %" in "\n".join(text)
    assert all(len(line) <= size[0] for line in text)
    console.file.close()


def test_without_anything_it_is_drawn_too() -> None:
    with package.open("memory://") as queue:
        console = Console(width=80, height=24, record=True, file=open(os.devnull, "w"))  # noqa: SIM115, PTH123
        console.print(render_screen(console.size, *view(queue), Texts(), "the store is busy"))
        assert "No workers connected." in (text := console.export_text())
        assert "the store is busy" in text
        console.file.close()


@pytest.mark.parametrize(
    ("length", "text"), [(0, "0 s"), (59, "59 s"), (60, "1 min"), (7_200, "2 h"), (200_000, "2 d")]
)
def test_waits_are_short(length: int, text: str) -> None:
    assert format_duration(length * 1_000_000) == text


def read_until(file: int, mark: bytes, seen: bytes = b"") -> bytes:
    while mark not in seen:
        assert select.select([file], [], [], 60)[0], seen
        seen += os.read(file, 65_536)
    return seen


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(
    ("end", "code"), [("q", 0), ("\x03", 0), (signal.SIGTERM, 128 + signal.SIGTERM)], ids=["q", "ctrl-c", "sigterm"]
)
def test_in_a_terminal_it_goes_on_until_told(
    environment: dict[str, str], tmp_path: Path, end: str | signal.Signals, code: int
) -> None:
    process, ours = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        environment |= {"TERM": "xterm-256color", "LINES": "24", "COLUMNS": "80"}
        os.execvpe(sys.executable, [sys.executable, "-m", "inturn.cli", "top"], environment)  # noqa: S606 - our own
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    seen = read_until(ours, b"flood")
    seen = read_until(ours, b"q: quit", seen)
    if isinstance(end, str):
        os.write(ours, end.encode())
    else:
        os.kill(process, end)
    assert b"\x1b[?1049l" in read_until(ours, b"\x1b[?1049l", seen)
    _, status = os.waitpid(process, 0)
    os.close(ours)
    assert os.waitstatus_to_exitcode(status) == code


def test_the_doctor_tells_what_workers_find(inturn_here: Inturn, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    inturn_here("migrate")
    assert "inturn.db.blobs does not exist yet" in inturn_here("doctor").stdout
    inturn_here("submit", "--customer", "acme", "a.txt")
    done = inturn_here("doctor")
    assert done.returncode == 0
    facts = dict(line.split(": ", 1) for line in done.stdout.splitlines()[1:])
    assert facts["Sandbox"].startswith("limits")
    assert ("Running as root" in facts["Sandbox"]) == (os.geteuid() == 0)
    assert inturn_here("doctor", "--json").records[-1]["root"] == (os.geteuid() == 0)
    assert facts["Blobs"] == "inturn.db.blobs can be written and read."
    assert facts["Measured"].startswith("Not enough data")
    assert "Not set" in inturn_here("doctor", "--store", "memory://").stdout


def test_the_doctor_ends_with_1_if_the_bytes_cannot_be_kept(
    inturn_here: Inturn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inturn_here("migrate")
    (tmp_path / "inturn.db.blobs").mkdir()

    def refuse(_: object) -> None:
        raise BlobError("the disk is mounted read-only")

    monkeypatch.setattr(module.Session, "require_blobs", refuse)
    done = inturn_here("doctor")
    assert done.returncode == 1
    assert "Blobs: the disk is mounted read-only" in done.stdout


def test_the_doctor_measures_what_pages_take(inturn_here: Inturn, tmp_path: Path) -> None:
    with package.open(str(tmp_path / "inturn.db")) as queue:
        for pages in range(1, 25):
            now = seconds(1_700_000_000 + 1_000 * pages)
            queue.submit("acme", [NewDocument("n", pages=pages)], now=now)
            (claimed,) = queue.claim("w", now=now)
            queue.finish(claimed, now=now + seconds(1 + pages / 2))
        assert queue.counts().states == {DocumentState.DONE: 24}
    shown = inturn_here("doctor").stdout
    assert "Measured: 1 s per document and 0.5 s per page, from 24 documents" in shown
    assert "For closer estimates by pages: inturn policy set --per-document 0.6667 --per-page 0.3333" in shown
    assert "--cost" not in shown
    reported = inturn_here("doctor", "--json").records[-1]
    assert (reported["costs"]["documents"], round(reported["per_page"], 4)) == (24, 0.3333)
    assert reported["turns"] == {"order": "fair", "charge": "time"}
    assert inturn_here("policy", "set", "--cost", "documents").returncode == 0
    shown = inturn_here("doctor").stdout
    command = "policy set --cost pages --per-document 0.6667 --per-page 0.3333"
    assert f"To let pages count: inturn {command}" in shown
    assert "To share processing time: inturn policy set --cost time" in shown
    assert inturn_here(*command.split()).returncode == 0
    assert inturn_here("policy", "show", "--json").records[0]["charge"] == "cost"


def test_light_commands_load_neither_parsers_nor_object_stores(environment: dict[str, str], tmp_path: Path) -> None:
    script = (
        "import sys, inturn.cli\n"
        "heavy = {'kreuzberg', 'obstore', 'ssl', 'inturn.worker.worker', 'inturn.fetch'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "[]\n"
