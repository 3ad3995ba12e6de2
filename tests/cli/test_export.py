"""`inturn export` and `inturn import`: a queue in a file and back, and one customer's data."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import full_queue
import inturn as package
from full_queue import BEGIN, check_live_export, command, contents, drain, import_until_killed
from inturn.blobs import FolderBlobs, open_blobs
from inturn.clock import ManualClock
from inturn.errors import StoreMovedError

Inturn = Callable[..., Any]


@pytest.fixture
def inturn(inturn_here: Inturn) -> Inturn:
    return inturn_here


@pytest.fixture
def now(tmp_path: Path) -> int:
    """Fill inturn.db; the time in it."""
    clock = ManualClock(BEGIN)
    full_queue.fill(str(tmp_path / "inturn.db"), FolderBlobs(tmp_path / "inturn.db.blobs"), clock)
    return clock.now()


@pytest.fixture
def exported(now: int, inturn: Inturn, tmp_path: Path) -> Path:
    assert now
    assert inturn("export", "--out", "queue.jsonl").returncode == 0
    return tmp_path / "queue.jsonl"


def refusal(run: Any, code: int = 1) -> str:
    assert (run.returncode, run.stdout) == (code, "")
    return " ".join(run.stderr.split())


def test_round_trip_has_the_same_rows_files_and_claims(now: int, inturn: Inturn, tmp_path: Path) -> None:
    before = contents("inturn.db")
    (written,) = inturn("export", "--out", "queue.jsonl", "--with-blobs", "--json").records
    assert written["files"] == written["copied"] == len(before["blobs"]) > 60
    assert (tmp_path / "queue.jsonl").stat().st_mode & 0o777 == 0o600
    arguments = ("import", "queue.jsonl", "--to", "new.db", "--to-blobs", "new.blobs", "--json")
    (read,) = inturn(*arguments).records
    assert (read["rows"], read["copied"]) == (written["rows"], written["files"])
    assert contents("new.db") == before == contents("inturn.db")
    copies = open_blobs("new.blobs")
    for key, sha256 in before["blobs"]:
        copies.check(key, sha256)
    assert inturn("doctor", "--store", "new.db", "--blobs", "new.blobs").returncode == 0
    assert "of its own" in refusal(inturn("import", "queue.jsonl", "--to", "new.db"))
    assert drain("new.db", now) == drain(str(shutil.copy("inturn.db", "stayed.db")), now)


@pytest.mark.usefixtures("now")
def test_standard_output_goes_into_standard_input(tmp_path: Path) -> None:
    written = command("export", "--out", "-", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    read = command("import", "-", "--to", "new.db", cwd=tmp_path, input=written.stdout)
    assert read.returncode == 0, read.stderr
    assert contents(str(tmp_path / "new.db")) == contents(str(tmp_path / "inturn.db"))


def test_lines_are_a_header_one_for_each_row_and_a_trailer(exported: Path) -> None:
    header, *rows, end = map(json.loads, exported.read_text().splitlines())
    fields = header["inturn_export"]
    assert (fields["format"], fields["store"], fields["live"], fields["customer"]) == (1, "sqlite", False, None)
    tables = [table for row in rows for table in row]
    assert {table: tables.count(table) for table in fields["rows"]} == fields["rows"]
    assert end.keys() == {"end"}
    (document,) = [row["document"] for row in rows if row.get("document", {}).get("seq") == 2]
    assert (document["name"], len(document["id"])) == ("acme Nr. 1.pdf", 36)


def test_import_killed_midway_is_refused_until_run_again(exported: Path, inturn: Inturn, tmp_path: Path) -> None:
    for writes in (0, 3):
        import_until_killed(exported, str(tmp_path / "new.db"), writes)
        assert "run inturn import again" in refusal(inturn("status", "--store", "new.db"))
        with pytest.raises(StoreMovedError, match="is not complete: an import of"):
            package.open("new.db")
    assert "is not complete" in refusal(inturn("move", "--from", "inturn.db", "--to", "new.db"))
    assert inturn("import", "queue.jsonl", "--to", "new.db").returncode == 0
    assert contents("new.db") == contents("inturn.db")


def cut_line(text: str) -> str:
    return text[: len(text) // 2]


def cut_trailer(text: str) -> str:
    return "".join(text.splitlines(keepends=True)[:-1])


def drop_row(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(lines[:50] + lines[51:])


def change_value(text: str) -> str:
    return text.replace('"attempt":0', '"attempt":1', 1)


def drop_column(text: str) -> str:
    return text.replace('"attempt":0,', "", 1)


def break_line(text: str) -> str:
    return text.replace('{"event":', '{"event"', 1)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (cut_line, "it is cut off"),
        (cut_trailer, "it is cut off"),
        (drop_row, "its SHA-256 is not the one"),
        (change_value, "its SHA-256 is not the one"),
        (drop_column, "does not have the columns of its table"),
        (break_line, "this is no JSON"),
    ],
)
def test_damaged_file_is_refused_and_a_whole_one_taken_after_it(
    exported: Path, inturn: Inturn, tmp_path: Path, damage: Callable[[str], str], why: str
) -> None:
    (tmp_path / "damaged.jsonl").write_text(damage(exported.read_text()))
    refused = refusal(inturn("import", "damaged.jsonl", "--to", "new.db"))
    assert "damaged.jsonl is damaged in line" in refused
    assert why in refused
    assert "is not complete: an import of damaged.jsonl" in refusal(inturn("status", "--store", "new.db"))
    assert inturn("import", "queue.jsonl", "--to", "new.db").returncode == 0
    assert contents("new.db") == contents("inturn.db")


def test_other_files_are_refused_before_anything_is_written(exported: Path, inturn: Inturn, tmp_path: Path) -> None:
    text = exported.read_text()
    for name, content, code, why in (
        ("newer", text.replace('"format":1', '"format":2', 1), 1, "has format 2 and this version of Inturn reads 1"),
        ("columns", text.replace('"sort_tie"', '"knot"'), 1, "lane.knot, lane.sort_tie"),
        ("header", text.replace('"queue":', '"tail":', 1), 1, "its header is not complete"),
        ("object", '{"a": 1}\n', 2, "is no file of inturn export"),
        ("list", "[]\n", 1, "no object with one key"),
        ("empty", "", 1, "it is cut off"),
    ):
        (tmp_path / name).write_text(content)
        assert why in refusal(inturn("import", name, "--to", "new.db"), code)
    assert "there is no file" in refusal(inturn("import", "nothing", "--to", "new.db"), 2)
    assert not (tmp_path / "new.db").exists() or contents("new.db")["document"] == []
    assert "holds documents" in refusal(inturn("import", "queue.jsonl", "--to", "inturn.db"))


@pytest.mark.usefixtures("now")
def test_export_refuses_what_it_cannot_write(inturn: Inturn, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    assert "exists already" in refusal(inturn("export", "--out", "there"), 2)
    assert "cannot be written" in refusal(inturn("export", "--out", "nowhere/queue.jsonl"))
    assert "needs a file" in refusal(inturn("export", "--out", "-", "--with-blobs"), 2)
    assert "there is no customer 'x'" in refusal(inturn("export", "--out", "new", "--customer", "x"))
    with package.open("inturn.db") as queue:
        (claim,) = queue.claim("worker")
        assert "1 documents of" in refusal(inturn("export", "--out", "new"))
        queue.finish(claim)
    key = contents("inturn.db")["blobs"][5][0]
    (tmp_path / "inturn.db.blobs" / key[-2:] / key).write_bytes(b"damaged")
    assert "is damaged" in refusal(inturn("export", "--out", "new", "--with-blobs"))
    assert [path.name for path in tmp_path.glob("new*")] == ["new.blobs"]
    inturn("move", "--from", "inturn.db", "--to", "moved.db")
    assert "was moved to" in refusal(inturn("export", "--out", "new"))


@pytest.mark.usefixtures("now")
def test_damaged_or_missing_blob_keeps_the_target_closed(inturn: Inturn, tmp_path: Path) -> None:
    inturn("export", "--out", "queue.jsonl", "--with-blobs")
    key = contents("inturn.db")["blobs"][5][0]
    path = tmp_path / "queue.jsonl.blobs" / key[-2:] / key
    stored = path.read_bytes()
    arguments = ("import", "queue.jsonl", "--to", "new.db", "--to-blobs", "new.blobs")
    path.write_bytes(b"damaged")
    assert "is damaged" in refusal(inturn(*arguments))
    path.unlink()
    assert "are not in queue.jsonl.blobs" in refusal(inturn(*arguments))
    assert "is not complete" in refusal(inturn("status", "--store", "new.db"))
    path.write_bytes(stored)
    assert inturn(*arguments).returncode == 0


def test_live_export_under_load_has_every_document_once(tmp_path: Path) -> None:
    check_live_export(str(tmp_path / "inturn.db"), str(tmp_path / "new.db"), tmp_path)


@pytest.mark.usefixtures("now")
def test_customer_export_has_nothing_of_others(inturn: Inturn, tmp_path: Path) -> None:
    with package.open("inturn.db") as queue:
        queue.fold_history(limit=10_000)
    (written,) = inturn("export", "--out", "acme.jsonl", "--customer", "acme", "--with-blobs", "--json").records
    text = (tmp_path / "acme.jsonl").read_text()
    with package.open("inturn.db") as queue:
        documents = list(full_queue.pages(queue))
        events = queue.events(limit=10_000)
    own = {document.id for document in documents if document.customer == "acme"}
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line["document"]["id"] for line in lines if "document" in line} == own
    seqs = {document.seq for document in documents if document.customer == "acme"}
    assert {line["file"]["document"] for line in lines if "file" in line} <= seqs
    assert written["rows"]["file"] < len(contents("inturn.db")["file"])
    (id_,) = [line["customer"]["id"] for line in lines if "customer" in line]
    tables = {"attempt", "document", "idempotency_key", "lane", "limits"}
    assert {row["customer"] for line in lines for table, row in line.items() if table in tables} == {id_}
    assert [line["event"]["number"] for line in lines if "event" in line] == [
        event.number for event in events if event.customer == "acme"
    ]
    assert {line["history"]["key"] for line in lines if "history" in line} == {"acme"}
    assert not [document.id for document in documents if document.id not in own and document.id in text]
    assert not [name for name in ("Süd", "trickle", "capped Nr", "rated Nr", "elsewhere", "late") if f"{name}" in text]
    assert all(
        written["rows"][table]
        for table in ("customer", "document", "event", "file", "idempotency_key", "lane", "limits")
    )
    assert (
        len(list((tmp_path / "acme.jsonl.blobs").glob("*/*"))) == written["files"] < len(contents("inturn.db")["blobs"])
    )
    refused = refusal(inturn("import", "acme.jsonl", "--to", "new.db"), 2)
    assert "holds the data of customer 'acme' alone" in refused
    assert not (tmp_path / "new.db").exists()
