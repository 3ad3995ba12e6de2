"""Every code block of README.md and docs/: run by a test, looked at by one, or left out for a reason given here."""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from doc_pages import BLOCKS, PAGES, ROOT, Block, blocks, commands
from inturn import config
from inturn.cli import app

RUN = {
    ("README.md", "console"): "tests/docs/test_examples.py",
    ("README.md", "python"): "tests/docs/test_examples.py",
    ("docs/blobs.md", "console"): "tests/docs/test_examples.py",
    ("docs/blobs.md", "python"): "tests/docs/test_examples.py",
    ("docs/celery.md", "python"): "tests/docs/test_fleet_pages.py",
    ("docs/cli.md", "console"): "tests/cli/test_docs.py",
    ("docs/http.md", "console"): "tests/http/test_page.py",
    ("docs/http.md", "python"): "tests/http/test_page.py",
    ("docs/many-machines.md", "console"): "tests/docs/test_many_machines_run.py",
    ("docs/many-machines.md", "python"): "tests/docs/test_many_machines_run.py",
    ("docs/many-machines.md", "sql"): "tests/docs/test_many_machines_run.py",
    ("docs/pipeline.md", "console"): "tests/docs/test_pipeline.py",
    ("docs/pipeline.md", "python"): "tests/docs/test_pipeline.py",
    ("docs/postgres.md", "python"): "tests/docs/test_many_machines_run.py",
    ("docs/postgres.md", "sql"): "tests/postgres/test_roles.py",
    ("docs/processing.md", "console"): "tests/docs/test_examples.py",
    ("docs/processing.md", "python"): "tests/docs/test_examples.py",
    ("docs/replay.md", "csv"): "tests/docs/test_examples.py",
    ("docs/replay.md", "sh"): "tests/docs/test_examples.py",
    ("docs/sqlite.md", "console"): "tests/docs/test_examples.py",
    ("docs/sqlite.md", "python"): "tests/docs/test_examples.py",
    ("docs/support.md", "sh"): "tests/page/test_support.py",
}
"""The test that runs all blocks of a language on a page."""
LOOKED_AT = {
    ("README.md", "sh"): "it installs, and runs the demo and all tests",
    ("docs/celery.md", "sh"): "it installs",
    ("docs/cli.md", "toml"): "settings: read below",
    ("docs/demo.md", "sh"): "it runs the demo, as tests/demo does",
    ("docs/http.md", "sh"): "it installs, and listens on every address of the machine",
    ("docs/many-machines.md", "ini"): "settings of hosts: tests/docs/test_many_machines.py knows them",
    ("docs/postgres.md", "sh"): "it installs; the other line is run on the page about many machines",
    ("docs/processing.md", "json"): "a result: read below",
    ("docs/web.md", "sh"): "it installs; the other line is run for README.md",
    **{
        (f"docs/priority/{item}.md", "text"): "the levels of a burst: tests/docs/test_priority_pages.py counts them"
        for item in ("en", "de", "es", "pl", "pt")
    },
}
"""Not run, and why; tests hold them to the program all the same."""
LEFT_OUT = {
    ("docs/blobs.md", "text"): "the layout of a folder, and an address",
    ("docs/design/README.md", "text"): "the order of imports, held by import-linter",
    ("docs/design/page.md", "text"): "the layout of the page's files",
    ("docs/design/page.md", "js"): "an outline of a module, with … for what is a page's own",
}
WHERE = [pytest.param(block, id=f"{block.page}:{block.line}") for block in BLOCKS]


def test_no_block_is_left_out_silently() -> None:
    there = {(block.page, block.language) for block in BLOCKS}
    assert there == RUN.keys() | LOOKED_AT.keys() | LEFT_OUT.keys()
    assert not RUN.keys() & LOOKED_AT.keys() | RUN.keys() & LEFT_OUT.keys() | LOOKED_AT.keys() & LEFT_OUT.keys()


@pytest.mark.parametrize("file", sorted(set(RUN.values())))
def test_the_tests_that_run_them_name_the_pages(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    for page in {page for (page, _), test in RUN.items() if test == file}:
        assert Path(page).name in text, page


@pytest.mark.parametrize("page", PAGES)
def test_code_stands_between_fences(page: str) -> None:
    """An indented block has no language and would be seen by no test."""
    outside = re.sub(r"^ *```.*?^ *```$", "", PAGES[page], flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"(?:^|\n)\n    \S.*", outside) == []


@pytest.mark.parametrize(
    "block", [parameter_set for parameter_set in WHERE if parameter_set.values[0].language == "python"]
)
def test_python_is_python(block: Block) -> None:
    compile(block.text, block.page, "exec")


def known_options(words: list[str]) -> set[str]:
    command: Any = typer.main.get_command(app)
    for word in words:
        if not hasattr(command, "commands") or word not in command.commands:
            break
        command = command.commands[word]
    assert not hasattr(command, "commands") or command.invoke_without_command, f"no such command: {' '.join(words)}"
    return {option for param in command.params for option in (*param.opts, *param.secondary_opts)} | {"--help"}


@pytest.mark.parametrize(
    "block", [parameter_set for parameter_set in WHERE if parameter_set.values[0].language in {"sh", "console"}]
)
def test_what_is_typed_exists(block: Block) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in commands(block):
        for match in re.findall(r"inturn\[([a-z0-9,]+)\]", line):
            assert set(match.split(",")) <= set(extras), line
        words = shlex.split(re.sub(r"\"?\$\([^)]*\)\"?", "ID", line), comments=True)
        if words[0] == "make":
            assert words[1] in targets, line
        if words[0] == "inturn":
            given = {word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)}
            assert given <= known_options(words[1:]) | {"--version"}, line


def test_the_file_of_settings_is_read(tmp_path: Path) -> None:
    (block,) = blocks("docs/cli.md", "toml")
    (tmp_path / "inturn.toml").write_text(block.text)
    settings = config.load({}, {}, tmp_path)
    assert {origin.name for origin in settings.origins if origin.origin.startswith("file")} == set(
        tomllib.loads(block.text)
    )


def test_results_are_json() -> None:
    (block,) = blocks("docs/processing.md", "json")
    assert set(json.loads(block.text)) == {"text", "pages", "media_type", "language", "metadata", "notes"}
