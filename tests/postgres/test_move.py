"""A queue moved into PostgreSQL and back: the same to the last row, whatever interrupts it."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

import forked_cli
import full_queue
import inturn
from full_queue import ANNA, BEGIN, contents, drain, transfer
from inturn.blobs import FolderBlobs
from inturn.clock import ManualClock
from inturn.errors import (
    IllegalTransitionError,
    InvalidInputError,
    StoreError,
    StoreMovedError,
    StoreVersionError,
)
from inturn.model import NewDocument
from inturn.stores import migrate, open_transfer_endpoint
from inturn.stores.postgres import PostgresStore, schema
from inturn.stores.postgres.transfer import PostgresEndpoint
from inturn.stores.postgres.url import parse_url
from inturn.stores.sqlite.transfer import SqliteEndpoint
from inturn.stores.transfer import Transfer, TransferEndpoint, undo
from inturn.worker_report import WorkerReport
from services import drop_schema, needs_postgres, new_schema

pytestmark = needs_postgres
SOAK = os.environ.get("INTURN_SOAK") == "1"
STEPS = ("close", "create", "update_marker", "begin_load", "write", "complete")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A file in which there is something of everything, and the time in it."""
    folder = tmp_path_factory.mktemp("filled")
    clock = ManualClock(BEGIN)
    full_queue.fill(str(folder / "queue.db"), FolderBlobs(folder / "blobs"), clock)
    return folder / "queue.db", clock.now()


def copied(path: Path | str, to: Path) -> str:
    return str(shutil.copy(path, to))


@pytest.fixture
def source(filled: tuple[Path, int], tmp_path: Path) -> str:
    return copied(filled[0], tmp_path / "source.db")


@pytest.fixture
def end() -> Iterator[Callable[[str], TransferEndpoint]]:
    """Opens ends, and lets go of them."""
    opened: list[TransferEndpoint] = []

    def open_one(url: str) -> TransferEndpoint:
        opened.append(open_transfer_endpoint(url))
        return opened[-1]

    yield open_one
    for transfer_endpoint in opened:
        transfer_endpoint.disconnect()


@pytest.fixture
def other_url() -> Iterator[str]:
    address = new_schema()
    yield address
    drop_schema(address)


def test_there_and_back_every_row_is_the_same(
    end: Callable[[str], TransferEndpoint], source: str, url: str, tmp_path: Path
) -> None:
    rows = transfer(source, url)
    before = contents(source)
    assert rows is not None
    with end(source).open_reader() as reader:
        state = sorted(reader.catalog()["document"]).index("state")
    assert rows["document"] > 60
    assert all(
        rows[item] for item in ("customer", "event", "file", "idempotency_key", "lane", "lane_log", "limits", "policy")
    )
    assert {row[state] for row in before["document"]} == {
        "waiting",
        "delayed",
        "done",
        "failed",
        "cancelled",
        "expired",
    }
    assert contents(url) == before
    transfer(url, str(tmp_path / "back.db"))
    assert contents(str(tmp_path / "back.db")) == before


def test_from_one_schema_into_another_that_is_made(source: str, url: str, missing_url: str) -> None:
    transfer(source, url)
    transfer(url, missing_url)
    assert contents(missing_url) == contents(source)


def test_what_comes_next_is_what_would_have_come_without_the_move(
    source: str, filled: tuple[Path, int], url: str, tmp_path: Path
) -> None:
    stayed = drain(copied(source, tmp_path / "stayed.db"), filled[1])
    assert len(stayed) > 100
    back = str(tmp_path / "back.db")
    transfer(source, url, keep_source=True)
    transfer(url, back, keep_source=True)
    for address in (url, back, source):
        assert drain(address, filled[1]) == stayed


def test_fences_go_on_behind_the_last_one_after_a_crash_of_the_server(source: str, url: str, tmp_path: Path) -> None:
    transfer(source, url)
    with inturn.open(url) as queue:
        (claimed,) = queue.claim("worker")
        queue.finish(claimed)
    with psycopg.connect(parse_url(url).conninfo, autocommit=True) as admin:
        admin.execute(f"TRUNCATE {parse_url(url).schema}.crash_sentinel".encode())  # as it is after a crash
    transfer(url, str(tmp_path / "back.db"))
    with inturn.open(str(tmp_path / "back.db")) as queue:
        assert queue.claim("worker")[0].fence > claimed.fence + 1_000


class Cut(BaseException):
    """The power goes."""


def interrupting(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Whatever changes anything ends the run, once it has been called for the so manieth time."""
    calls = iter(range(1, 1_000))

    def cutting(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            answer = method(*args, **more)
            if next(calls) == at:
                raise Cut
            return answer

        return call

    for end in (SqliteEndpoint, PostgresEndpoint):
        for step in STEPS:
            monkeypatch.setattr(end, step, cutting(getattr(end, step)))
    monkeypatch.setattr("inturn.stores.transfer.BATCH_ROWS", 40)


@pytest.mark.parametrize("back", [False, True])
def test_interrupted_anywhere_and_run_again_it_ends_the_same(
    end: Callable[[str], TransferEndpoint],
    filled: tuple[Path, int],
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    back: bool,
) -> None:
    before = contents(str(filled[0]))
    cuts = 0
    for at in range(
        1 + back, 100, 1 if SOAK else 2
    ):  # every other place on the way there, the ones between on the way back
        source, target = copied(filled[0], tmp_path / f"{at}.db"), f"{url}_{at}"
        if back:
            transfer(source, target)
            source, target = target, str(tmp_path / f"{at} back.db")
        with monkeypatch.context() as patch:
            interrupting(patch, at)
            with suppress(Cut):
                transfer(source, target)
                break
        cuts += 1
        for item in (source, target):
            if end(item).exists() and end(item).closed_marker() is not None:
                with pytest.raises(StoreMovedError):
                    inturn.open(item)
        transfer(source, target)
        assert transfer(source, target) is None
        assert contents(target) == contents(source) == before
        with pytest.raises(StoreMovedError, match="was moved to"):
            inturn.open(source)
        with inturn.open(target) as queue:
            assert queue.store.recount(repair=False) == ()
        drop_schema(f"{url}_{at}")
    drop_schema(f"{url}_{at}")
    assert cuts > (12 if SOAK else 6)


@pytest.mark.parametrize("at", [3, 4, 6, 14])
def test_killed_and_run_again_it_ends_the_same(source: str, url: str, at: int) -> None:
    program = f"""
import os, signal, sys
import full_queue
from inturn.stores.postgres.transfer import PostgresEndpoint
from inturn.stores.sqlite.transfer import SqliteEndpoint
calls = iter(range(1, 1000))
def killing(method):
    def call(*args):
        answer = method(*args)
        if next(calls) == {at}:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer
    return call
for end in (SqliteEndpoint, PostgresEndpoint):
    for step in {STEPS}:
        setattr(end, step, killing(getattr(end, step)))
full_queue.transfer(sys.argv[1], sys.argv[2])
"""
    path = os.pathsep.join([str(Path(inturn.__file__).parents[1]), str(Path(__file__).parents[1] / "support")])
    command = [sys.executable, "-c", program, source, url]
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False, timeout=60)  # noqa: S603
    assert killed.returncode == -signal.SIGKILL
    transfer(source, url)
    assert contents(url) == contents(source)
    with inturn.open(url) as queue:
        assert queue.store.recount(repair=False) == ()


def test_while_it_moves_both_ends_refuse_everything(
    end: Callable[[str], TransferEndpoint], source: str, url: str
) -> None:
    here, there = inturn.open(source), inturn.open(url)
    leaving, arriving = end(source), end(url)
    running_transfer = Transfer(leaving, arriving)
    assert running_transfer.check()
    running_transfer.begin()
    for queue, why in ((here, "is being moved to"), (there, "is not complete")):
        with pytest.raises(StoreMovedError, match=why):
            queue.submit("acme", [NewDocument("x")])
        with pytest.raises(StoreMovedError, match=why):
            queue.check("acme")
        with pytest.raises(StoreMovedError, match=why):
            queue.pause(ANNA)
    with pytest.raises(StoreMovedError):
        here.claim("worker")
    assert there.claim("worker") == ()
    for item, why in ((source, "is being moved to"), (url, "is not complete")):
        with pytest.raises(StoreMovedError, match=why):
            inturn.open(item)
    running_transfer.load(lambda *_: None)
    with pytest.raises(StoreMovedError, match="was moved to"):
        here.submit("acme", [NewDocument("x")])
    assert there.claim("worker")
    here.close()
    there.close()


def test_a_queue_in_postgres_that_leaves_refuses_everything(
    end: Callable[[str], TransferEndpoint], source: str, url: str, tmp_path: Path
) -> None:
    transfer(source, url)
    with inturn.open(url) as queue:
        leaving, arriving = end(url), end(str(tmp_path / "back.db"))
        running_transfer = Transfer(leaving, arriving)
        assert running_transfer.check()
        running_transfer.begin()
        for call in (lambda: queue.submit("new", [NewDocument("x")]), lambda: queue.claim("worker"), queue.store.sweep):
            with pytest.raises(StoreMovedError, match="is being moved to"):
                call()
        undo(end(url))
        assert queue.submit("new", [NewDocument("x")])
        with pytest.raises(IllegalTransitionError, match="opened again"):
            running_transfer.load(lambda *_: None)


@pytest.mark.parametrize("back", [False, True])
def test_whatever_was_accepted_until_the_door_closed_is_there(
    source: str, url: str, tmp_path: Path, *, back: bool
) -> None:
    target = url
    if back:
        transfer(source, url)
        source, target = url, str(tmp_path / "back.db")
    accepted: list[str] = []
    begun = threading.Event()

    def submit_until_refused() -> None:
        with inturn.open(source) as queue:
            for number in itertools.count():
                accepted.extend(
                    receipt.id for receipt in queue.submit(f"customer {number % 3}", [NewDocument("x")] * 2)
                )
                begun.set()
                time.sleep(0.05)  # the transfer gets its turn on a busy machine, too

    with ThreadPoolExecutor(1) as pool:
        submitter = pool.submit(submit_until_refused)
        begun.wait(60)
        transfer(source, target)
        with pytest.raises(StoreMovedError):
            submitter.result(60)
    with inturn.open(target) as queue:
        assert {queue.document(item).state for item in accepted} == {"waiting"}
        assert contents(source) == contents(target)
        assert queue.store.recount(repair=False) == ()


def test_the_command_takes_files_along_and_asks_where_they_are(
    filled: tuple[Path, int], url: str, tmp_path: Path
) -> None:
    source = copied(filled[0], tmp_path / "source.db")

    def command(*args: str) -> subprocess.CompletedProcess[str]:
        run = forked_cli.command("move", *args, "--json")
        return subprocess.run(run, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60)  # noqa: S603

    there = command(
        "--from", source, "--to", url, "--from-blobs", str(filled[0].with_name("blobs")), "--to-blobs", "new"
    )
    assert there.returncode == 0, there.stderr
    files = json.loads(there.stdout.splitlines()[-1])["copied"]
    unknown = command("--from", url, "--to", "back.db")
    assert (unknown.returncode, "--from-blobs" in unknown.stderr) == (2, True)
    back = command("--from", url, "--to", "back.db", "--from-blobs", "new")
    assert json.loads(back.stdout.splitlines()[-1])["files"] == files > 60
    assert contents(str(tmp_path / "back.db")) == contents(source)


def test_a_target_that_was_made_anew_is_not_taken_for_the_old_one(source: str, url: str) -> None:
    transfer(source, url)
    drop_schema(url)
    migrate(url)
    with pytest.raises(IllegalTransitionError, match="was moved to"):
        transfer(source, url)


def test_a_second_run_takes_over_from_one_that_still_goes_on(
    end: Callable[[str], TransferEndpoint], source: str, url: str
) -> None:
    leaving, arriving = end(source), end(url)
    first = Transfer(leaving, arriving)
    assert first.check()
    first.begin()
    transfer(source, url)
    with pytest.raises(IllegalTransitionError, match="another run"):
        first.load(lambda *_: None)
    assert contents(url) == contents(source)


def test_what_cannot_be_moved_is_refused(
    end: Callable[[str], TransferEndpoint], source: str, url: str, other_url: str
) -> None:
    with inturn.open(other_url) as queue:
        queue.submit("somebody", [NewDocument("x")])
    with pytest.raises(IllegalTransitionError, match="of its own"):
        transfer(source, other_url)
    with pytest.raises(InvalidInputError, match="the same queue"):
        transfer(other_url, other_url)
    with inturn.open(other_url) as queue:
        (claimed,) = queue.claim("worker")
        with pytest.raises(StoreError, match=r"1 documents of .* are running"):
            transfer(other_url, url)
        queue.finish(claimed)
        queue.store.record_worker(WorkerReport("w1", "here", 1, 1, 0, "none", 0))
        with pytest.raises(StoreError, match="reported in the last minute: w1"):
            transfer(other_url, url)
        queue.store.forget_worker("w1")
    with psycopg.connect(parse_url(url).conninfo, autocommit=True) as admin:
        admin.execute(f"SET search_path = {parse_url(other_url).schema}".encode())
        admin.execute(b"INSERT INTO migration VALUES (99, 'from the future')")
    with pytest.raises(StoreVersionError, match="newer"):
        transfer(other_url, url)
    with pytest.raises(StoreVersionError, match="newer"):
        transfer(source, other_url)
    assert end(source).closed_marker() is None


def test_an_older_schema_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PostgresStore(url).close()
    monkeypatch.setattr("inturn.stores.postgres.schema.MIGRATIONS", [None] * (len(schema.MIGRATIONS) + 1))
    with pytest.raises(StoreVersionError, match="run: inturn migrate --store"):
        transfer(url, str(tmp_path / "new.db"))


def test_ends_that_know_other_columns_are_refused(
    end: Callable[[str], TransferEndpoint], source: str, url: str
) -> None:
    PostgresStore(url).close()
    with psycopg.connect(parse_url(url).conninfo, autocommit=True) as admin:
        admin.execute(f"ALTER TABLE {parse_url(url).schema}.document ADD COLUMN more text".encode())
    with pytest.raises(StoreError, match=r"document\.more"):
        transfer(source, url)
    assert end(source).closed_marker() is None
