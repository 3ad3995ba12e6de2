"""`inturn move` between files: what it says, what it refuses, and where documents' bytes go."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import full_queue
import inturn as package
from full_queue import BEGIN, contents
from inturn.blobs import FolderBlobs, open_blobs
from inturn.clock import ManualClock
from inturn.errors import StoreMovedError
from inturn.insights import Insights
from inturn.stores import open_transfer_endpoint
from inturn.stores.transfer import Transfer, TransferEndpoint, undo
from inturn.worker_report import WorkerReport

Inturn = Callable[..., Any]
MOVE = ("move", "--from", "inturn.db", "--to", "new.db")


@pytest.fixture
def inturn(inturn_here: Inturn) -> Inturn:
    return inturn_here


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A queue with everything in it, and its files beside it."""
    full_queue.fill(str(tmp_path / "inturn.db"), FolderBlobs(tmp_path / "inturn.db.blobs"), ManualClock(BEGIN))
    return tmp_path / "inturn.db"


@pytest.fixture
def end(tmp_path: Path) -> Iterator[Callable[[str], TransferEndpoint]]:
    opened: list[TransferEndpoint] = []

    def open_one(name: str) -> TransferEndpoint:
        opened.append(open_transfer_endpoint(str(tmp_path / name)))
        return opened[-1]

    yield open_one
    for transfer_endpoint in opened:
        transfer_endpoint.disconnect()


def test_all_of_it_is_moved_and_both_ends_say_so(filled: Path, inturn: Inturn, tmp_path: Path) -> None:
    before = json.loads(inturn("status", "--json").stdout)
    moved = inturn(*MOVE)
    assert moved.returncode == 0, moved.stderr
    assert re.search(r"^policy +3$", moved.stdout, re.MULTILINE)
    assert f"documents transferred to {tmp_path / 'new.db'}." in moved.stdout
    assert "files stay in inturn.db.blobs" in moved.stdout
    assert contents(str(filled)) == contents(str(tmp_path / "new.db"))
    for command in (("status",), ("doctor",), ("submit", "--customer", "acme", "--name", "x")):
        refused = inturn(*command)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"was moved to {tmp_path / 'new.db'}; use that address" in refused.stderr
    assert json.loads(inturn("status", "--store", "new.db", "--json").stdout)["states"] == before["states"]
    assert inturn("doctor", "--store", "new.db", "--blobs", "inturn.db.blobs").returncode == 0
    again = inturn(*MOVE)
    assert (again.returncode, again.stderr) == (0, "")
    assert "Nothing was left to do" in again.stdout


def test_why_and_results_are_the_same_after_it(filled: Path, inturn: Inturn) -> None:
    ids = [json.loads(line)["id"] for line in inturn("documents", "--json", "--limit", "500").stdout.splitlines()]
    assert len(ids) > 60

    def said(store: str) -> list[object]:
        with package.open(store, clock=ManualClock(BEGIN)) as queue:
            insights = Insights(queue, ManualClock(BEGIN))
            return [(insights.why(item), queue.result(item), queue.files(item)) for item in ids]

    before = said(str(filled))
    assert inturn(*MOVE).returncode == 0
    assert said("new.db") == before


def test_json_output_is_one_record(filled: Path, inturn: Inturn) -> None:
    (last,) = inturn(*MOVE, "--json").records
    before = contents(str(filled))
    assert last["rows"] == {table: len(before[table]) for table in last["rows"]}
    assert (last["moved"], last["kept_source"], last["copied"]) == (True, False, 0)
    assert last["files"] == len(contents(str(filled))["blobs"]) > 60
    (again,) = inturn(*MOVE, "--json").records
    assert again["moved"] is False
    refused = inturn("move", "--from", "nothing.db", "--to", "other.db", "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stderr)["error"] == "not_found"


def test_a_dry_run_counts_and_changes_nothing(filled: Path, inturn: Inturn, tmp_path: Path) -> None:
    before = contents(str(filled))
    (reported,) = inturn(*MOVE, "--to-blobs", "new.blobs", "--dry-run", "--json").records
    assert reported["rows"]["document"] == len(before["document"])
    assert reported["files"] == reported["to_copy"] == len(before["blobs"])
    shown = inturn(*MOVE, "--dry-run")
    assert "would be transferred to" in shown.stdout
    assert contents(str(filled)) == before
    assert not (tmp_path / "new.db").exists()
    assert not (tmp_path / "new.blobs").exists()
    package.open(str(filled)).close()


# -- documents' bytes -------------------------------------------------------------------------------------------------


def test_files_are_copied_once_and_compared(filled: Path, inturn: Inturn, tmp_path: Path) -> None:
    wanted = dict(contents(str(filled))["blobs"])
    some = list(wanted)[:3]
    (tmp_path / "new.blobs").mkdir()
    early = open_blobs(str(tmp_path / "new.blobs"))
    for key in some:
        with early.begin(key=key) as writing:
            writing.write((tmp_path / "inturn.db.blobs" / key[-2:] / key).read_bytes())
            writing.commit()
    moved = inturn(*MOVE, "--to-blobs", "new.blobs", "--json").records[-1]
    assert (moved["files"], moved["copied"]) == (len(wanted), len(wanted) - 3)
    copies = open_blobs(str(tmp_path / "new.blobs"))
    for key, sha256 in wanted.items():
        copies.check(key, sha256 or "")


def test_a_missing_or_damaged_file_is_found_before_anything_is_closed(
    filled: Path, inturn: Inturn, tmp_path: Path
) -> None:
    key = contents(str(filled))["blobs"][5][0]
    path = tmp_path / "inturn.db.blobs" / key[-2:] / key
    stored = path.read_bytes()
    path.write_bytes(b"no more what it was")
    damaged = inturn(*MOVE, "--to-blobs", "new.blobs")
    assert (damaged.returncode, key in damaged.stderr, "is damaged" in damaged.stderr) == (1, True, True)
    assert not (tmp_path / "new.blobs" / key[-2:] / key).exists()
    path.unlink()
    for more in ((), ("--to-blobs", "new.blobs"), ("--dry-run",)):
        missing = inturn(*MOVE, *more)
        assert missing.returncode == 1
        assert f"1 files of documents or results are not in inturn.db.blobs ({key})" in missing.stderr
    elsewhere = inturn(*MOVE, "--from-blobs", "elsewhere")
    assert "are not in elsewhere" in elsewhere.stderr
    package.open(str(filled)).close()
    assert not (tmp_path / "new.db").exists()
    path.write_bytes(stored)
    assert inturn(*MOVE, "--to-blobs", "new.blobs").returncode == 0


# -- what is refused --------------------------------------------------------------------------------------------------


def refusal(run: Any, code: int = 1) -> str:
    assert (run.returncode, run.stdout) == (code, "")
    return " ".join(run.stderr.split())


def test_addresses_that_make_no_sense_are_refused(filled: Path, inturn: Inturn, tmp_path: Path) -> None:
    assert "the same queue" in refusal(inturn("move", "--from", "inturn.db", "--to", str(filled)), 2)
    (tmp_path / "link.db").symlink_to(filled)
    assert "the same queue" in refusal(inturn("move", "--from", "inturn.db", "--to", "link.db"), 2)
    assert "a queue in memory" in refusal(inturn("move", "--from", "memory://", "--to", "new.db"), 2)
    assert "there is no queue at" in refusal(inturn("move", "--from", "nothing.db", "--to", "new.db"))
    assert "--to" in refusal(inturn("move", "--from", "inturn.db"), 2)
    assert "--undo" in refusal(inturn(*MOVE, "--undo"), 2)
    (tmp_path / "text.db").write_text("some text that is no database at all" * 40)
    assert "damaged or no Inturn database" in refusal(inturn("move", "--from", "inturn.db", "--to", "text.db"))


def test_a_source_at_work_is_refused(filled: Path, inturn: Inturn) -> None:
    with package.open(str(filled)) as queue:
        (claimed,) = queue.claim("worker")
        assert "1 documents of" in refusal(inturn(*MOVE))
        queue.finish(claimed)
        queue.store.record_worker(WorkerReport("w1", "here", 1, 1, 0, "none", 0))
        assert "reported in the last minute: w1; stop them with SIGTERM" in refusal(inturn(*MOVE))
        queue.store.forget_worker("w1")
    assert inturn(*MOVE).returncode == 0


def test_a_target_in_use_is_refused(filled: Path, inturn: Inturn) -> None:
    inturn("check", "somebody", "--store", "new.db")
    assert "of its own; give a target that was never used" in refusal(inturn(*MOVE))
    package.open(str(filled)).close()


@pytest.mark.parametrize("file", ["inturn.db", "new.db"])
@pytest.mark.parametrize(("version", "why"), [(99, "newer version"), (0, "run inturn migrate --store")])
def test_another_schema_is_refused(filled: Path, inturn: Inturn, file: str, version: int, why: str) -> None:
    inturn("migrate", "--store", "new.db")
    connection = apsw.Connection(str(filled.with_name(file)))
    connection.pragma("user_version", version)
    connection.close()
    assert why in refusal(inturn(*MOVE))


# -- interrupted, undone, kept ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("filled")
def test_a_move_that_was_interrupted_can_be_undone(
    inturn: Inturn, end: Callable[[str], TransferEndpoint], tmp_path: Path
) -> None:
    assert "not closed by a move" in refusal(inturn("move", "--from", "inturn.db", "--undo"))
    running_transfer = Transfer(end("inturn.db"), end("new.db"))
    assert running_transfer.check()
    running_transfer.begin()
    assert "is being moved to" in refusal(inturn("status"))
    assert "is not complete" in refusal(inturn("doctor", "--store", "new.db"))
    assert "is not complete" in refusal(inturn("move", "--from", "new.db", "--to", "third.db"))
    assert "is not complete" in refusal(inturn("move", "--from", "new.db", "--undo"))
    undone = inturn("move", "--from", "inturn.db", "--undo")
    assert (undone.returncode, undone.stdout) == (0, f"{tmp_path / 'inturn.db'} is open again.\n")
    inturn("submit", "--customer", "acme", "--name", "one more")
    assert inturn("move", "--from", "inturn.db", "--to", "third.db").returncode == 0
    assert "was moved to" in refusal(inturn("move", "--from", "inturn.db", "--to", "new.db"))
    assert "move it back" in refusal(inturn("move", "--from", "inturn.db", "--undo"))
    assert "was moved to" in refusal(inturn("move", "--from", "third.db", "--to", "inturn.db"))
    assert "is not complete" in refusal(inturn("move", "--from", "third.db", "--to", "new.db"))


def test_an_undone_move_may_be_begun_again_with_the_same_target(
    filled: Path, inturn: Inturn, end: Callable[[str], TransferEndpoint], tmp_path: Path
) -> None:
    running_transfer = Transfer(end("inturn.db"), end("new.db"))
    assert running_transfer.check()
    running_transfer.begin()
    undo(end("inturn.db"))
    assert inturn(*MOVE).returncode == 0
    assert contents(str(filled)) == contents(str(tmp_path / "new.db"))


def test_a_copy_leaves_its_source_open(filled: Path, inturn: Inturn, tmp_path: Path) -> None:
    stored = inturn(*MOVE, "--keep-source")
    assert stored.returncode == 0, stored.stderr
    assert "was left as it is, open." in stored.stdout
    assert contents(str(filled)) == contents(str(tmp_path / "new.db"))
    assert inturn("submit", "--customer", "acme", "--name", "one more").returncode == 0
    assert "of its own" in refusal(inturn(*MOVE, "--keep-source"))


def test_a_copy_that_was_interrupted_is_begun_again(
    filled: Path, inturn: Inturn, end: Callable[[str], TransferEndpoint], tmp_path: Path
) -> None:
    running_transfer = Transfer(end("inturn.db"), end("new.db"), keep_source=True)
    assert running_transfer.check()
    running_transfer.begin()
    with pytest.raises(StoreMovedError):
        package.open(str(tmp_path / "new.db"))
    assert inturn("submit", "--customer", "acme", "--name", "one more").returncode == 0
    assert inturn(*MOVE, "--keep-source").returncode == 0
    assert contents(str(filled)) == contents(str(tmp_path / "new.db"))
