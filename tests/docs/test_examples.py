"""README.md, processing.md, sqlite.md, blobs.md and replay.md: what they show is run, in their order, in a folder."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import inturn
import recorded_day
from demo.contents import make_content
from demo.pdf import write_pdf
from doc_pages import Block, Shell, blocks, commands
from inturn.store_types import DocumentFilter
from inturn.stores import open_store

ID = "0190f3c5-…"
HOSTILE = ("INTURN_", "LC_", "LANG", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TYPER", "TERM", "AWS_")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(HOSTILE)}
    path = os.pathsep.join([str(Path(inturn.__file__).parents[1]), str(tmp_path)])
    return ours | {"PYTHONPATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def shell(tmp_path: Path, environment: Mapping[str, str]) -> Shell:
    return Shell(tmp_path, environment, {})


@pytest.fixture
def invoices(tmp_path: Path) -> Path:
    folder = tmp_path / "invoices"
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.pdf").write_bytes(write_pdf(make_content(number, 3))[0])
    return folder


def write_module(block: Block, folder: Path) -> Path:
    """A block that names its file in the first line, there."""
    name = block.text.splitlines()[0].removeprefix("# ")
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(block.text, encoding="utf-8")
    return path


def is_done(folder: Path) -> Callable[[str], bool]:
    """Whether nothing is left to do."""

    def done(log: str) -> bool:
        with inturn.open(str(folder / "inturn.db")) as queue:
            left = {str(state) for state, n in queue.counts().states.items() if n}
        return "processor" in log and left <= {"done", "failed"}

    return done


def type_all(shell: Shell, block: Block) -> None:
    """Each line, those that go on for ever until they have done what is to be done."""
    for line in commands(block):
        if line.startswith("inturn worker"):
            shell.run_until(line, is_done(shell.folder))
        elif line.startswith("inturn serve"):
            shell.run_until(line, lambda log: "listening on" in log and log.count(" is ready: ") == 2)  # its workers
        elif ID in line:
            first = json.loads(shell.run("inturn documents --state done --json").splitlines()[0])["id"]
            assert shell.run(line.replace(ID, first))
        else:
            shell.run(line)


@pytest.mark.usefixtures("invoices")
@pytest.mark.parametrize("page", ["README.md", "docs/processing.md"])
def test_workers_and_processors(shell: Shell, page: str) -> None:
    pytest.importorskip("kreuzberg")
    first, *_, second = [block for block in blocks(page, "console") if "--queue" not in block.text]
    module, *_ = blocks(page, "python")
    type_all(shell, first)
    with inturn.open(str(shell.folder / "inturn.db")) as queue:
        assert {str(document.state) for document in queue.documents(limit=9).items} == {"done"}
    write_module(module, shell.folder)
    shell.run("inturn submit --customer acme invoices/0.pdf")
    type_all(shell, second)
    with inturn.open(str(shell.folder / "inturn.db")) as queue:
        newest = queue.documents(limit=1).items[0]
        assert queue.result(newest.id) == {"bytes": newest.spec.size}


def test_steps_and_parts(shell: Shell) -> None:
    module, test = (block for block in blocks("docs/processing.md", "python") if "documents.py" in block.text[:30])
    (typed,) = (block for block in blocks("docs/processing.md", "console") if "mypackage.documents" in block.text)
    write_module(module, shell.folder)
    path = write_module(test, shell.folder)
    assert "2 passed" in shell.run(f"pytest -q -p no:cacheprovider {path.name}")
    type_all(shell, typed)
    with inturn.open(str(shell.folder / "inturn.db")) as queue:
        (letter,) = queue.documents(DocumentFilter(parts=False), limit=9).items
        assert queue.result(letter.id) == {
            "pages": 2, "words": 4, "text": "DEAR SIRBEST WISHES", "missing": [],
        }  # fmt: skip


def test_the_test_of_a_processor(shell: Shell) -> None:
    module, *_, test = blocks("docs/processing.md", "python")
    write_module(module, shell.folder)
    path = write_module(test, shell.folder)
    assert "2 passed" in shell.run(f"pytest -q -p no:cacheprovider {path.name}")


def execute(block: Block, **names: Any) -> dict[str, Any]:
    exec(compile(block.text, block.page, "exec"), names)  # noqa: S102 - our own page
    return names


def test_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[Any] = []
    names = execute(blocks("README.md", "python")[1], print=said.append)
    assert said == [1]
    with names["queue"] as queue:
        assert queue.result(names["receipts"][0].id) == {"pages": 3}
    (block,) = blocks("docs/sqlite.md", "python")
    with execute(block)["queue"] as queue:
        assert queue.policy().number == 1


def test_blobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = blocks("docs/blobs.md", "python")
    assert execute(first)["text"] == b"Dear customer"
    assert execute(second)["fetcher"] is not None
    (block,) = blocks("docs/blobs.md", "console")
    for line in commands(block):
        shell.run(line)


def test_backup_and_restore(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "letter.txt").write_text("Dear customer")
    shell.run("inturn submit --customer acme letter.txt")
    first, second = blocks("docs/sqlite.md", "console")
    type_all(shell, first)
    for path in tmp_path.glob("inturn.db*"):
        path.rename(tmp_path / f"away-{path.name}")
    type_all(shell, second)
    with inturn.open(str(tmp_path / "inturn.db")) as queue:
        assert len(queue.documents(limit=9).items) == 1


def test_replay(tmp_path: Path, shell: Shell) -> None:
    (table,) = blocks("docs/replay.md", "csv")
    (tmp_path / "history.csv").write_text(table.text)
    assert "3 documents" in shell.run("inturn simulate --replay --csv history.csv --slots 1")
    store = open_store(str(tmp_path / "inturn.db"))
    recorded_day.record(store, length=100, seed=1, quiet=10)
    store.close()
    played, advised = blocks("docs/replay.md", "sh")
    for line in (*commands(played), *commands(advised)):
        wanted = {"--from 7d": "", "--from 2026-03-02 --to 2026-03-03": ""}
        for old, new in wanted.items():  # the recorded day is another one
            line = line.replace(old, new)  # noqa: PLW2901
        assert shell.run(line)
    assert (tmp_path / "advice.html").is_file()
