"""A queue exported from PostgreSQL or a file, and imported into the other."""

import shutil
from pathlib import Path

import pytest

import full_queue
import inturn
from full_queue import BEGIN, check_live_export, command, contents, drain, import_until_killed
from inturn.blobs import FolderBlobs
from inturn.clock import ManualClock
from inturn.errors import StoreMovedError
from inturn.model import NewDocument
from services import needs_postgres

pytestmark = needs_postgres


@pytest.fixture
def now(tmp_path: Path) -> int:
    """Fill source.db; the time in it."""
    clock = ManualClock(BEGIN)
    full_queue.fill(str(tmp_path / "source.db"), FolderBlobs(tmp_path / "source.db.blobs"), clock)
    return clock.now()


def export(source: str, path: str, *options: str, cwd: Path) -> None:
    done = command("export", "--store", source, "--out", path, *options, cwd=cwd)
    assert done.returncode == 0, done.stderr


def import_(path: str, target: str, cwd: Path) -> None:
    done = command("import", path, "--to", target, cwd=cwd)
    assert done.returncode == 0, done.stderr


def test_round_trip_has_the_same_rows_and_claims(now: int, missing_url: str, tmp_path: Path) -> None:
    source, back = str(tmp_path / "source.db"), str(tmp_path / "back.db")
    export(source, "there.jsonl", cwd=tmp_path)
    import_("there.jsonl", missing_url, cwd=tmp_path)
    export(missing_url, "back.jsonl", cwd=tmp_path)
    import_("back.jsonl", back, cwd=tmp_path)
    assert contents(source) == contents(missing_url) == contents(back)
    stayed = drain(str(shutil.copy(source, tmp_path / "stayed.db")), now)
    assert drain(missing_url, now) == stayed
    assert drain(back, now) == stayed


@pytest.mark.usefixtures("now")
def test_import_killed_midway_is_refused_until_run_again(url: str, tmp_path: Path) -> None:
    export("source.db", "queue.jsonl", cwd=tmp_path)
    import_until_killed(tmp_path / "queue.jsonl", url, 3)
    with pytest.raises(StoreMovedError, match="is not complete: an import of"):
        inturn.open(url)
    import_("queue.jsonl", url, cwd=tmp_path)
    assert contents(url) == contents(str(tmp_path / "source.db"))
    with inturn.open(url) as queue:
        assert queue.store.recount(repair=False) == ()


def test_live_export_under_load_has_every_document_once(url: str, tmp_path: Path) -> None:
    check_live_export(url, str(tmp_path / "new.db"), tmp_path)


def test_live_export_of_a_file_goes_into_postgres(url: str, tmp_path: Path) -> None:
    check_live_export(str(tmp_path / "source.db"), url, tmp_path)


def test_customer_export_has_events_that_have_no_number_yet(url: str, tmp_path: Path) -> None:
    with inturn.open(url) as queue:
        queue.submit("acme", [NewDocument("a.pdf")])
        queue.submit("other", [NewDocument("b.pdf")])
    export(url, "acme.jsonl", "--customer", "acme", cwd=tmp_path)
    text = (tmp_path / "acme.jsonl").read_text()
    assert text.count('{"event":') == 1
    assert "a.pdf" in text
    assert "other" not in text
    assert "b.pdf" not in text
