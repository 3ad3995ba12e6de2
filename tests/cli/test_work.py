"""`inturn worker`, `result`, `batch` and `maintenance`, with real workers in processes of their own."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forked_cli
from demo import make_document
from hostile_files import hidden_bomb_pdf, package
from waiting import wait_until

Inturn = Callable[..., Any]

PROCESSOR = """
import time
from inturn.processor_api import Reject, Result, Retry

def process(document):
    text = document.open().read().decode()
    if "bad" in document.name:
        raise Reject("it is bad")
    if "large" in document.name:
        return Result({"text": text, "more": "x" * 300_000}, {"copy.txt": text.encode(), "raw.bin": b"\\0\\1"})
    return {"text": text}

def slow(document):
    open("begun", "w").close()
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PROCESSOR)
    for name in ("good.txt", "bad.txt", "large.txt"):
        (tmp_path / name).write_text(f"the secret words of {name}")
    return tmp_path


@pytest.fixture
def start(folder: Path, environment: dict[str, str]) -> Callable[..., subprocess.Popen[str]]:
    def start(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603 - our own
            forked_cli.command(*arguments),
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def submitted(inturn_here: Inturn, *names: str) -> dict[str, str]:
    result = inturn_here("submit", "--customer", "acme", "--batch", "b", "--json", *names).records
    return {item["name"].partition(".")[0]: item["id"] for item in result}


def work(inturn: Inturn, *arguments: str) -> Any:
    return inturn("worker", "--until-empty", "--processor", "mine:process", *arguments)


def test_documents_are_processed_and_their_results_shown(inturn: Inturn, inturn_here: Inturn, folder: Path) -> None:
    ids = submitted(inturn_here, "good.txt", "bad.txt", "large.txt")
    waiting = inturn_here("result", ids["good"])
    assert (waiting.returncode, waiting.stdout) == (1, "")
    assert f"inturn why {ids['good']}" in waiting.stderr

    done = work(inturn, "--slots", "1", "--name", "mill")
    assert (done.returncode, done.stdout) == (0, "")
    assert "store inturn.db, blobs inturn.db.blobs" in done.stderr
    assert "processor mine:process, 1 slot, sandbox: none" in done.stderr
    assert "worker mill ended: 2 done, 0 retried, 1 failed, 0 handed back, 0 stale" in done.stderr
    assert "secret" not in done.stderr

    assert inturn_here("result", ids["good"]).records == [{"text": "the secret words of good.txt"}]
    assert inturn_here("result", ids["good"], "--text").stdout == "the secret words of good.txt\n"
    (large,) = inturn_here("result", ids["large"]).records
    assert len(large["more"]) == 300_000
    failed = inturn_here("result", ids["bad"])
    assert failed.returncode == 1
    assert "was rejected in attempt 1 of 3: it is bad; another attempt would end the same way" in failed.stderr
    shows_files(inturn, inturn_here, ids, folder)


def shows_files(inturn: Inturn, inturn_here: Inturn, ids: dict[str, str], folder: Path) -> None:
    assert inturn("result", ids["large"], "--file", "copy.txt").stdout == "the secret words of large.txt"
    unknown = inturn_here("result", ids["large"], "--file", "none")
    assert "it has 'copy.txt', 'raw.bin', 'result.json'" in unknown.stderr
    written = inturn_here("result", ids["large"], "--file", "raw.bin", "--out", "raw", "--json").records
    assert written == [{"path": "raw", "size": 2}]
    assert (folder / "raw").read_bytes() == b"\0\1"
    assert inturn_here("result", ids["good"], "--out", "raw").returncode == 2
    assert "raw" in inturn_here("result", ids["good"], "--out", "raw", "--force").stdout
    assert json.loads((folder / "raw").read_text()) == {"text": "the secret words of good.txt"}
    assert inturn_here("result", ids["good"], "--out", "no/where").returncode == 2
    assert inturn_here("result", ids["good"], "--text", "--file", "x").returncode == 2
    elsewhere = inturn_here("result", ids["large"], "--blobs", "nowhere")
    assert (elsewhere.returncode, "--blobs" in elsewhere.stderr) == (1, True)


def test_the_built_in_processor_works_in_the_sandbox(inturn: Inturn, inturn_here: Inturn, folder: Path) -> None:
    pytest.importorskip("kreuzberg")
    (folder / "long.txt").write_text("long words " * 30_000)
    ids = submitted(inturn_here, "good.txt", "long.txt")
    done = inturn("worker", "--until-empty", "--no-upkeep", "--json")
    assert done.returncode == 0, done.stderr
    reported = [json.loads(line) for line in done.stderr.splitlines()]
    assert reported[2]["sandbox"].startswith("limits")
    assert (reported[-1]["done"], reported[-1]["failed"]) == (2, 0)
    assert inturn_here("result", ids["good"], "--text").stdout == "the secret words of good.txt\n"
    assert len(inturn("result", ids["long"], "--text").stdout) >= 300_000


LIMITED = [
    ("a.pdf", make_document("pdf", 2).data, "max_pages", "1", "pages; the limit is 1"),
    ("a.png", make_document("png", 2).data, "max_megapixels", "0.1", "the limit is 0.1 million pixels"),
    ("a.md", b"word " * 1_000, "max_text", "0.001", "the limit is 0.001 MB"),
    ("a.docx", package({"word/media/a.bin": bytes(400_000)}), "max_unpacked", "0.25", "opens to more than 0.25 MB"),
]


@pytest.mark.parametrize("way", ["flags", "environment", "file"])
def test_what_the_built_in_processor_reads_can_be_set(
    inturn: Inturn, inturn_here: Inturn, folder: Path, way: str
) -> None:
    for name, data, *_ in LIMITED:
        (folder / name).write_bytes(data)
    inturn_here("submit", "--customer", "acme", *(name for name, *_ in LIMITED))
    chosen = {setting: value for _, _, setting, value, _ in LIMITED}
    flags, variables = list[str](), dict[str, str]()
    if way == "flags":
        flags = [part for name, value in chosen.items() for part in (f"--{name.replace('_', '-')}", value)]
    elif way == "environment":
        variables = {f"INTURN_{name.upper()}": value for name, value in chosen.items()}
    else:
        (folder / "inturn.toml").write_text("".join(f"{name} = {value}\n" for name, value in chosen.items()))
    inturn("worker", "--until-empty", *flags, **variables)
    errors = {record["name"]: record["error"] for record in inturn_here("documents", "--json").records}
    for name, *_, reason in LIMITED:
        assert reason in errors[name]


def test_the_memory_of_the_sandbox_can_be_set(inturn: Inturn, inturn_here: Inturn, folder: Path) -> None:
    (folder / "bomb.pdf").write_bytes(hidden_bomb_pdf())
    inturn_here("submit", "--customer", "acme", "bomb.pdf")
    inturn("worker", "--until-empty", "--max-memory", "500")
    (document,) = inturn_here("documents", "--json").records
    assert document["error"] == "This document needs more than 500 MB of memory, which is the limit"


@pytest.mark.parametrize(
    ("arguments", "code", "advice"),
    [
        (["--max-pages", "0"], 2, "max_pages (flag) must be a whole number from 1"),
        (["--max-memory", "1"], 2, "max_memory (flag) must be a number from 256"),
        (["--processor", "nothing.there:at_all"], 1, "no module 'nothing'"),
        (["--processor", "mine:missing"], 1, "has no 'missing'"),
        (["--processor", "mine"], 1, "package.module:function"),
        (["--slots", "0"], 2, "from 1 to 1000"),
        (["--lease", "0"], 2, "lease"),
        (["--timeout", "-1"], 2, "timeout"),
        (["--fetch", "https://example.org"], 2, "port"),
        (["--blobs", "gopher://x"], 2, "gopher"),
        (["--name", "a\tb"], 2, "control"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_work_is_told_at_the_start(
    inturn_here: Inturn, arguments: list[str], code: int, advice: str
) -> None:
    done = inturn_here("worker", "--until-empty", *arguments)
    assert done.returncode == code, done.stderr
    assert advice in done.stderr
    assert "Traceback" not in done.stderr


def test_sigterm_ends_a_worker_gracefully_and_hands_back(
    inturn_here: Inturn, start: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    ids = submitted(inturn_here, "good.txt")
    with start("worker", "--processor", "mine:slow", "--grace", "0", "--slots", "1") as worker:
        wait_until(lambda: (folder / "begun").exists() or worker.poll() is not None)
        assert worker.poll() is None
        (shown,) = inturn_here("top", "--json").records
        assert [item["processor"] for item in shown["workers"]] in ([], ["mine:slow"])
        os.kill(worker.pid, signal.SIGTERM)
        _, reported = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "1 handed back" in reported
    assert inturn_here("why", ids["good"], "--json").records[0]["state"] == "waiting"


def test_submit_waits_for_what_it_submitted(
    inturn: Inturn, start: Callable[..., subprocess.Popen[str]], folder: Path
) -> None:
    inturn("migrate")
    with start("worker", "--processor", "mine:process") as worker:
        fine = inturn("submit", "--customer", "acme", "good.txt", "--wait", "--json", "--batch", "b")
        assert [record.get("state") for record in fine.records] == [None, "done"]
        mixed = inturn("submit", "--customer", "acme", "good.txt", "bad.txt", "--wait", "--batch", "b")
        waited = inturn("batch", "b", "--wait", "--json")
        os.kill(worker.pid, signal.SIGTERM)
        worker.communicate(timeout=60)
    assert mixed.returncode == 1
    assert mixed.stdout.splitlines()[-1] == "2 documents finished: done 1, failed 1."
    assert "it is bad" in mixed.stdout
    assert waited.returncode == 1
    assert json.loads(waited.stdout)["customers"] == {"acme": {"done": 2, "failed": 1}}
    assert folder.exists()


def test_a_batch_is_shown_by_state_and_customer(inturn_here: Inturn) -> None:
    inturn_here("submit", "--customer", "acme", "a://1", "a://2", "--batch", "b")
    inturn_here("submit", "--customer", "bob", "a://3", "--batch", "b")
    inturn_here("cancel", "--customer", "bob", "--yes")
    lines = [" ".join(line.split()) for line in inturn_here("batch", "b").stdout.splitlines()]
    assert lines[:3] == ["Batch: b", "Finished: 1 of 3", "Status: waiting 2, cancelled 1"]
    assert lines[-3:] == ["Customer waiting cancelled", "acme 2 0", "bob 0 1"]
    assert inturn_here("batch", "c").returncode == 1


def test_waiting_ends_when_the_documents_are_deleted(
    inturn_here: Inturn, start: Callable[..., subprocess.Popen[str]]
) -> None:
    inturn_here("migrate")
    with start("submit", "--customer", "acme", "a://1", "--wait") as waiting:
        assert waiting.stderr is not None
        assert "No worker" in waiting.stderr.readline()
        inturn_here("purge", "acme", "--yes")
        reported, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 1
    assert "it was deleted while it was waited for" in reported


def test_maintenance_deletes_what_is_old_with_its_bytes(inturn: Inturn, inturn_here: Inturn, folder: Path) -> None:
    submitted(inturn_here, "good.txt", "large.txt")
    work(inturn)
    (tidied,) = inturn_here("maintenance", "--once", "--keep", "0", "--json").records
    assert (tidied["documents"], tidied["blobs"], tidied["orphans"]) == (2, 5, 0)
    assert [path for path in (folder / "inturn.db.blobs").rglob("*") if path.is_file()] == []
    assert inturn_here("maintenance", "--once").stdout.startswith("Moved on: 0. Deleted: documents 0,")


def test_maintenance_goes_on_until_told_to_stop(
    inturn_here: Inturn, start: Callable[..., subprocess.Popen[str]]
) -> None:
    inturn_here("migrate")
    with start("maintenance") as process:
        assert process.stderr is not None
        assert "history is kept for 30 days" in process.stderr.readline()
        os.kill(process.pid, signal.SIGTERM)
        _, reported = process.communicate(timeout=60)
    assert (process.returncode, "maintenance ended" in reported) == (0, True)


def test_a_purge_deletes_the_bytes_too(inturn_here: Inturn, folder: Path) -> None:
    submitted(inturn_here, "good.txt", "large.txt")
    assert inturn_here("purge", "acme", "--yes", "--json").records[0]["blobs"] == 2
    assert [path for path in (folder / "inturn.db.blobs").rglob("*") if path.is_file()] == []
    submitted(inturn_here, "good.txt")
    left = inturn_here("purge", "acme", "--yes", "--blobs", "nowhere")
    assert "The file of 1 document is still stored" in left.stderr


def test_a_result_is_shown_however_deep_it_is(inturn: Inturn, inturn_here: Inturn, folder: Path) -> None:
    (folder / "deep.py").write_text(
        "def process(document):\n    found = 1\n    for _ in range(940):\n        found = [found]\n    return found\n"
    )
    id_ = submitted(inturn_here, "good.txt")["good"]
    assert inturn("worker", "--until-empty", "--processor", "deep:process").returncode == 0
    shown = inturn("result", id_, "--out", "deep.json")
    assert shown.returncode == 0, shown.stderr
    assert "".join((folder / "deep.json").read_text().split()) == "[" * 940 + "1" + "]" * 940
