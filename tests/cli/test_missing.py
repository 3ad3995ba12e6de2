"""A queue that is not there: which commands make it, and that the others leave nothing behind."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from inturn.cli import app
from services import drop_schema, needs_postgres, new_schema

from .conftest import CommandResult

Inturn = Callable[..., CommandResult]
ID = "018f3c5e-0000-7000-8000-000000000000"
REFUSED = {
    "keys list": (),
    "keys revoke": ("abc",),
    "keys rotate": ("abc",),
    "result": (ID,),
    "status": (),
    "top": ("--once",),
    "customers": (),
    "documents": (),
    "batch": ("june",),
    "why": (ID,),
    "policy show": (),
    "policy history": (),
    "pause": (),
    "resume": (),
    "customer show": ("acme",),
    "customer set": ("acme", "--weight", "2"),
    "weight": ("acme", "2"),
    "cap": ("acme", "2"),
    "rate": ("acme", "1/60"),
    "keep": ("acme", "9"),
    "expedite": (ID,),
    "retry": (ID,),
    "cancel": (ID,),
    "purge": ("acme", "--yes"),
    "backup": ("copy",),
    "doctor": (),
    "export": ("--out", "queue.jsonl"),
    "maintenance": ("--once",),
    "upkeep": ("--once",),
    "simulate": ("--replay",),
    "report": (),
    "failures": (),
    "history": (),
    "search": ("invoice",),
    "queues pause": ("ocr",),
    "queues resume": ("ocr",),
    "parts": (ID,),
    "manual list": ("ocr",),
    "manual take": ("ocr",),
    "manual extend": (ID,),
    "manual finish": (ID, "--fence", "1"),
    "manual release": (ID,),
    "manual reject": (ID, "--reason", "no"),
    "workers pause": ("worker-1",),
    "workers stop": ("worker-1",),
    "workers resume": ("worker-1",),
}
"""Commands that need a queue which is there, with arguments that are otherwise fine."""
MAKING = {
    "check": ("acme",),
    "submit": ("--customer", "acme", "--name", "x"),
    "worker": ("--until-empty", "--processor", "json:loads"),
    "keys create": ("--operator", "--name", "anna"),
    "policy set": ("--reset-interval", "60"),
    "queues set": ("ocr", "--weight", "2"),
}
"""Commands that a queue may begin with."""
OTHERS = {"serve", "migrate", "move", "import", "restore", "config show"}
"""`serve` makes one too and does not end; the others have tests of their own."""


def test_every_command_is_tried() -> None:
    commands = typer.main.get_command(app).commands
    names = {
        f"{name} {inner}".strip() for name, command in commands.items() for inner in getattr(command, "commands", [""])
    }
    assert names == {*REFUSED, *MAKING, *OTHERS}


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize("command", REFUSED)
def test_a_file_that_is_missing_is_not_made(
    inturn_here: Inturn, tmp_path: Path, command: str, *, is_empty: bool
) -> None:
    if is_empty:
        (tmp_path / "typo.db").touch()
    run = inturn_here(*command.split(), *REFUSED[command], "--store", "typo.db")
    assert (run.returncode, run.stdout) == (1, "")
    assert "there is no queue at 'typo.db' yet" in run.stderr
    assert "inturn migrate --store typo.db" in run.stderr
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [0] * is_empty


@pytest.mark.parametrize("command", MAKING)
def test_a_file_that_is_made_is_told_of(inturn: Inturn, tmp_path: Path, command: str) -> None:
    line = (*command.split(), *MAKING[command], "--store", "new.db")
    first = inturn(*line)
    assert first.returncode == 0, first.stderr
    assert first.stderr.splitlines()[0] == "Queue created: new.db"
    assert (tmp_path / "new.db").exists()
    assert "A new queue" not in inturn(*line).stderr


@needs_postgres
@pytest.mark.parametrize("command", [*REFUSED, *MAKING, "serve"])
def test_a_mistyped_schema_is_not_made(inturn_here: Inturn, tmp_path: Path, command: str) -> None:
    url = new_schema(migrated=False)
    given = {**REFUSED, **MAKING, "serve": ("--port", "0")}[command]
    try:
        blobs = ("--blobs", "blobs") if command in {"submit", "worker", "serve"} else ()
        run = inturn_here(*command.split(), *given, *blobs, "--store", url)
        assert (run.returncode, run.stdout) == (1, "")
        assert "there is no queue in the schema" in run.stderr
        assert f"inturn migrate --store '{url}'" in run.stderr
        assert list(tmp_path.iterdir()) == []
        assert "there is no queue in the schema" in inturn_here("status", "--store", url).stderr
    finally:
        drop_schema(url)


@needs_postgres
def test_migrate_makes_a_schema(inturn_here: Inturn) -> None:
    url = new_schema(migrated=False)
    try:
        assert inturn_here("migrate", "--store", url).returncode == 0
        assert inturn_here("status", "--store", url).returncode == 0
    finally:
        drop_schema(url)
