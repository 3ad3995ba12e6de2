"""docs/pipeline.md: its commands run, its code is that of examples/pipeline, and a killed worker loses nothing."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import inturn
from doc_pages import ROOT, blocks, commands
from inturn import DocumentState, Queue
from pipeline.documents import DAILY, DAMAGED_PAGE, FLOOD
from pipeline.summary import summarize, whole_documents
from waiting import wait_until

PAGE = "docs/pipeline.md"
TIMEOUT_SECONDS = 240
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "examples")])}
PROGRAMS = {"python": [sys.executable], "inturn": [sys.executable, "-m", "inturn.cli"]}


def run(folder: Path, line: str) -> str:
    program, *arguments = shlex.split(line)
    completed = subprocess.run(  # noqa: S603 - our own
        [*PROGRAMS[program], *arguments],
        cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def exported(folder: Path) -> dict[str, dict[str, Any]]:
    """The files by document id; nothing else may be there."""
    return {path.name.removesuffix(".json"): json.loads(path.read_text()) for path in folder.iterdir()}


def check_files(queue: Queue, files: dict[str, dict[str, Any]]) -> None:
    """Every document has its file, with each of its pages once; one page has failed."""
    documents = {document.id: document for document in whole_documents(queue)}
    assert {document.state for document in documents.values()} == {DocumentState.DONE}
    assert files.keys() == documents.keys()
    for id_, content in files.items():
        assert (content["customer"], content["name"]) == (documents[id_].customer, documents[id_].spec.name)
        assert [page["page"] for page in content["pages"]] == list(range(1, (documents[id_].spec.pages or 0) + 1))
        assert [result.queue for result in queue.results(id_)] == ["split", "merge", "export"]
    failed = [page for content in files.values() for page in content["pages"] if page["state"] != "done"]
    assert [(page["page"], page["state"]) for page in failed] == [(DAMAGED_PAGE, "failed")]
    assert "no text on this page" in failed[0]["error"]


def test_the_commands_of_the_page_export_every_document(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "console")
    submitted, _, summary = [run(tmp_path, line) for line in commands(block)]
    assert submitted == "28 documents of two customers submitted\n"
    with inturn.open(str(tmp_path / "letters.db")) as queue:
        files = exported(tmp_path / "exported")
        check_files(queue, files)
        daily, flood = summarize(queue)
    assert (daily.customer, daily.documents, daily.failed_pages) == (DAILY, 4, 0)
    assert (flood.customer, flood.documents, flood.failed_pages) == (FLOOD, 24, 1)
    assert max(daily.places) <= len(files) // 2  # first come, first served, they would be the last four
    shown = [line for line in block.text.splitlines() if not line.startswith("$")]
    assert [line.split()[:5] for line in summary.splitlines()] == [line.split()[:5] for line in shown[1:]]
    languages = Counter(content["language"] for content in files.values())
    assert {"en", "de", "es"} & languages.keys()
    assert {content["kind"] for content in files.values()} <= {"invoice", "contract", "minutes", "letter"}


def test_the_readme_of_the_example_has_the_commands_of_the_page() -> None:
    (block,) = blocks(PAGE, "console")
    assert block.text in (ROOT / "examples" / "pipeline" / "README.md").read_text(encoding="utf-8")


def test_the_code_of_the_page_is_that_of_the_example() -> None:
    source = (ROOT / "examples" / "pipeline" / "processors.py").read_text(encoding="utf-8")
    shown = [part for block in blocks(PAGE, "python") for part in re.split(r"\n(?=@)", block.text)]
    assert len(shown) == 5
    assert all(f"{part.rstrip()}\n" in source for part in shown)


@contextmanager
def started(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """`python -m pipeline`, with all that it starts gone at the end."""
    command = [sys.executable, "-m", "pipeline", "--folder", str(folder), "--documents", "12"]
    process = subprocess.Popen(  # noqa: S603 - our own
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_worker_that_is_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with started(folder) as process:
        wait_until(lambda: len(list((folder / "exported").glob("*.json"))) > 1, TIMEOUT_SECONDS)
        with inturn.open(str(folder / "inturn.db")) as queue:
            (worker,) = queue.workers()
        os.kill(worker.report.process, signal.SIGKILL)
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0
    assert "killed by signal 9" in output
    with inturn.open(str(folder / "inturn.db")) as queue:
        check_files(queue, exported(folder / "exported"))
