"""`inturn simulate --replay` and `inturn report` as a person runs them."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from inturn.cli.progress import progress_reporter
from inturn.clock import ManualClock
from inturn.i18n import Texts
from inturn.model import NewDocument
from inturn.queue import Queue
from inturn.stores import open_store
from inturn.values import SECOND

Inturn = Callable[..., Any]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A flood of forty documents and a customer with three, one worker, a second each, a minute ago."""
    path = tmp_path / "queue.db"
    clock = ManualClock((int(time.time()) - 60) * SECOND)
    with Queue(open_store(str(path), clock), clock=clock) as queue:
        queue.submit("flood", [NewDocument("a document")] * 40)
        queue.submit("small", [NewDocument("a document", pages=3)] * 3)
        for _ in range(43):
            (claimed,) = queue.claim("worker")
            clock.advance(SECOND)
            queue.finish(claimed)
    return str(path)


def test_a_replay_shows_how_near_it_comes(inturn: Inturn, store: str) -> None:
    shown = inturn("simulate", "--replay", "--store", store)
    assert (shown.returncode, shown.stderr) == (0, "")
    for word in ("43 documents", "customers: 2", "Measured", "Replayed", "how close a replay comes"):
        assert word in shown.stdout
    assert "With changes" not in shown.stdout


def test_it_tells_who_wins_and_who_pays(inturn_here: Inturn, store: str) -> None:
    first, *everyone = inturn_here("simulate", "--replay", "--store", store, "--order", "fifo", "--json").records
    comparison = first["comparison"]
    assert comparison["asked"] == ["order=fifo"]
    assert [item["customer"] for item in comparison["less"]] == ["flood"]
    assert [item["customer"] for item in comparison["more"]] == ["small"]
    assert [(item["customer"], item["measured"] == item["current"]) for item in everyone] == [
        ("flood", True),
        ("small", True),
    ]
    shown = inturn_here("simulate", "--replay", "--store", store, "--order", "fifo", "--lang", "de")
    assert "wartet länger" in shown.stdout


@pytest.mark.parametrize(
    ("options", "flood", "small"),
    [
        (["--slots", "4"], 5.175, 1.0),
        (["--policy", "thresholds=-40", "--policy", "order=classic"], 19.5, 41.0),
        (["--weight", "flood=1000"], 22.325, 3.333),
        (["--cap", "flood=1", "--slots", "2"], 19.5, 1.0),
        (["--order", "fifo"], 19.5, 41.0),
    ],
)
def test_every_kind_of_change_is_played(
    inturn_here: Inturn, store: str, options: list[str], flood: float, small: float
) -> None:
    _, *everyone = inturn_here("simulate", "--replay", "--store", store, *options, "--json").records
    assert [(item["customer"], item["current"], item["proposed"]) for item in everyone] == [
        ("flood", 22.35, flood),
        ("small", 3.0, small),
    ]


def test_history_goes_out_as_a_file_and_comes_in_again(inturn_here: Inturn, store: str, tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    shown = inturn_here("simulate", "--replay", "--store", store, "--export", str(path), "--scrub")
    assert "43 documents written" in shown.stdout
    assert "flood" not in path.read_text()
    first, *_ = inturn_here("simulate", "--replay", "--csv", str(path), "--slots", "2", "--json").records
    assert first["comparison"]["workers_proposed"] == 2
    assert first["comparison"]["documents"] == 43


def test_pages_and_charts_are_written(inturn_here: Inturn, store: str, tmp_path: Path) -> None:
    page, charts = tmp_path / "replay.html", tmp_path / "charts"
    args = ("simulate", "--replay", "--store", store, "--order", "fifo", "--html", str(page), "--svg", str(charts))
    shown = inturn_here(*args, "--lang", "pl")
    assert f"Zapisano raport do {page}" in shown.stdout
    assert '<html lang="pl">' in page.read_text()
    assert {path.name for path in charts.iterdir()} == {"groups.svg", "changes.svg", "waiting.svg", "levels.svg"}


def test_advice_says_what_to_type_and_changes_nothing(inturn_here: Inturn, store: str, tmp_path: Path) -> None:
    args = ("simulate", "--replay", "--store", store, "--advise", "--goal", "p95<=10s for everyone")
    shown = inturn_here(*args, "--html", str(tmp_path / "advice.html"))
    for word in ("the goal is missed", "nothing was changed", "inturn simulate --replay --slots"):
        assert word in shown.stdout
    (record,) = inturn_here(*args, "--json").records
    assert record["advice"]["best"]["is_met"]
    assert inturn_here("policy", "show", "--store", store, "--json").records[0]["version"] == 1


def test_the_report_tells_what_customers_got(inturn_here: Inturn, store: str, tmp_path: Path) -> None:
    shown = inturn_here("report", "--store", store, "--since", "1h")
    for word in ("43 documents", "Actual share", "Taken from others", "customers had to wait", "Checked"):
        assert word in shown.stdout
    page = tmp_path / "report.html"
    first, *customers = inturn_here("report", "--store", store, "--json", "--html", str(page)).records
    assert first["report"]["documents"] == 43
    assert first["report"]["starts"]["asked"] > 0
    assert {customer["customer"] for customer in customers} == {"flood", "small"}
    assert sum(customer["harm_done"] for customer in customers) == pytest.approx(
        sum(customer["harm_suffered"] for customer in customers), abs=0.01
    )
    assert page.exists()


@pytest.mark.parametrize(
    ("args", "advice"),
    [
        (["simulate", "--replay", "flood"], "leave out the scenario and --seed"),
        (["simulate", "--slots", "3"], "need --replay"),
        (["simulate", "flood", "--export", "x.csv"], "need --replay"),
        (["simulate", "--replay", "--from", "yesterday"], "such as 2026-03-02"),
        (["simulate", "--replay", "--from", "1h", "--to", "2h"], "--to must be later"),
        (["simulate", "--replay", "--policy", "speed=9"], "reset_interval, thresholds, order"),
        (["simulate", "--replay", "--policy", "overdue_every=often"], "takes a number"),
        (["simulate", "--replay", "--order", "fair,fifo"], "one of fair, classic, fifo with --replay"),
        (["simulate", "--replay", "--weight", "2"], "CUSTOMER=NUMBER such as acme=2.5"),
        (["simulate", "--replay", "--cap", "flood=many"], "acme=3 or acme=none"),
        (["simulate", "--replay", "--weight", "flood=0"], "weight must be"),
        (["simulate", "--replay", "--scrub", "--weight", "flood=2"], "leave out --weight and --cap"),
        (["simulate", "--replay", "--advise", "--goal", "fast"], "a goal is a figure"),
        (["simulate", "--replay", "--csv", "missing.csv"], "cannot read missing.csv"),
        (["simulate", "--replay", "--from", "1s"], "nothing to play"),
        (["report", "--since", "1s"], "nothing to play"),
    ],
)
def test_mistakes_end_with_2_and_advice(inturn_here: Inturn, store: str, args: list[str], advice: str) -> None:
    shown = inturn_here(*args, INTURN_STORE=store)
    assert shown.returncode == 2
    assert advice in shown.stderr


def test_without_starts_somebody_must_say_how_many_ran(inturn_here: Inturn, tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("customer,arrived,service\nacme,0,5\nacme,1,5\n")
    refused = inturn_here("simulate", "--replay", "--csv", str(path))
    assert refused.returncode == 2
    assert "--slots" in refused.stderr
    first, *_ = inturn_here("simulate", "--replay", "--csv", str(path), "--slots", "1", "--json").records
    assert first["comparison"]["groups"][0]["current"]["worst"] == 4


def test_ctrl_c_says_that_nothing_was_changed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), progress_reporter(Texts("en")):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "Stopped. Nothing was changed.\n"


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress_reporter(Texts("en")) as step:
        report = step("Reading")
        report(1, 0)  # too soon
        monkeypatch.setattr("inturn.cli.progress.LINE_INTERVAL_SECONDS", 0.0)
        report(2, 0)
        report(1_000, 2_000)
    assert capsys.readouterr().err == "Reading: 2\nReading: 1,000 / 2,000\n"


def _reads(process: int, path: Path) -> bool:
    """Whether a process has this file open."""
    for item in Path(f"/proc/{process}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            if item.readlink() == path:
                return True
    return False


def test_ctrl_c_ends_it_cleanly(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / "much.csv"
    rows = "\n".join(f"customer {n % 50},{n // 100},3" for n in range(200_000))
    path.write_text(f"customer,arrived,service\n{rows}\n")
    command = [sys.executable, "-m", "inturn.cli", "simulate", "--replay", "--csv", str(path), "--slots", "4"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603
        until = time.monotonic() + 60
        while not _reads(process.pid, path):
            assert time.monotonic() < until, "the file is never read"
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        said, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == b""
    assert b"Traceback" not in error
