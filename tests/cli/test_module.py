"""`inturn worker MODULE`: the processors that a module has for queues."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inturn import config
from inturn.cli import serve
from inturn.cli.worker import ServedQueues
from inturn.sandbox.confinement import SandboxLimits
from inturn.values import seconds
from inturn.worker.options import QueueOptions

Inturn = Callable[..., Any]
MODULE = """
import inturn

@inturn.processor(queue="read", timeout="90s", retries=0)
def read(document):
    if "bad" in document.name:
        raise ValueError("torn")
    return inturn.Next("write", {"name": document.name})

@inturn.processor(queue="write")
def write(document):
    return document.results["read"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "documents.py").write_text(MODULE)
    for name in ("good.txt", "bad.txt"):
        (tmp_path / name).write_text("words")
    return tmp_path


def submit(inturn_here: Inturn) -> dict[str, str]:
    records = inturn_here("submit", "--customer", "acme", "--queue", "read", "--json", "good.txt", "bad.txt").records
    return {item["name"]: item["id"] for item in records}


def test_worker_serves_the_queues_of_a_module(inturn: Inturn, inturn_here: Inturn) -> None:
    ids = submit(inturn_here)
    done = inturn("worker", "documents", "--until-empty", "--name", "mill")
    assert done.returncode == 0, done.stderr
    assert "processor read=documents:read,write=documents:write, 2 slots" in done.stderr
    assert "1 done, 0 retried, 1 failed, 0 handed back, 0 stale, 1 moved on" in done.stderr
    assert inturn_here("result", ids["good.txt"]).records == [{"name": "good.txt"}]


def test_queue_option_narrows_them_and_may_add_one(inturn: Inturn, inturn_here: Inturn) -> None:
    ids = submit(inturn_here)
    one = inturn("worker", "documents", "--queue", "read", "--until-empty")
    assert "0 done, 0 retried, 1 failed, 0 handed back, 0 stale, 1 moved on" in one.stderr
    other = inturn("worker", "documents", "--queue", "read", "--queue", "write=documents:write", "--until-empty")
    assert "1 done" in other.stderr
    assert inturn_here("result", ids["good.txt"]).records == [{"name": "good.txt"}]


def test_module_may_stand_in_the_settings(inturn: Inturn, inturn_here: Inturn, folder: Path) -> None:
    submit(inturn_here)
    (folder / "inturn.toml").write_text('module = "documents"\n')
    assert "1 done" in inturn("worker", "--until-empty").stderr
    submit(inturn_here)
    (folder / "inturn.toml").unlink()
    assert "1 done" in inturn("worker", "--until-empty", INTURN_MODULE="documents").stderr


def test_sandbox_has_the_longest_timeout_and_each_queue_its_own(
    inturn: Inturn, inturn_here: Inturn, folder: Path
) -> None:
    (folder / "package").mkdir()
    (folder / "documents.py").rename(folder / "package" / "documents.py")
    ids = submit(inturn_here)
    inturn_here("queues", "set", "write", "--description", "written", "--by", "anna")
    done = inturn("worker", "package.documents", "--sandbox", "--until-empty")
    assert "1 done" in done.stderr, done.stderr
    assert inturn_here("result", ids["good.txt"]).records == [{"name": "good.txt"}]


def test_timeouts_in_the_sandbox() -> None:
    served = ServedQueues({"a": "m:a", "b": "m:b"}, {"a": QueueOptions(timeout=seconds(600), max_attempts=2)})
    assert served.longest_timeout == seconds(600)
    assert served.with_timeout(None) == {
        "a": QueueOptions(seconds(600), 2),
        "b": QueueOptions(seconds(SandboxLimits().wall_seconds)),
    }
    assert served.with_timeout(30)["b"].timeout == seconds(30)
    assert ServedQueues({"a": None}, {}).with_timeout(30) == {}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere"], "there is no module 'nowhere'"),
        (["documents", "--queue", "export"], "documents has no processor of the queue 'export', only of read, write"),
        (["documents", "--processor", "documents:read"], "give a module with processors (documents) or one processor"),
    ],
)
def test_module_that_cannot_be_served_is_refused(inturn: Inturn, arguments: list[str], reason: str) -> None:
    refused = inturn("worker", *arguments)
    assert (refused.returncode, reason in refused.stderr) == (2, True), refused.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('module = "documents"\n', ["documents"]),
        ('module = "documents"\nqueues = ["read"]\n', ["documents", "--queue", "read"]),
        ('processor = "documents:read"\n', ["--processor", "documents:read", "--queue", "default"]),
    ],
)
def test_server_starts_its_workers_with_the_module(tmp_path: Path, text: str, expected: list[str]) -> None:
    (tmp_path / "inturn.toml").write_text(text)
    flags = serve._worker_flags(config.load({}, {}, tmp_path))  # noqa: SLF001 - a worker that runs would show less
    served = {"--processor", "--queue"}
    pairs = [flags[at : at + 2] for at in range(len(flags)) if flags[at] in served]
    assert [*flags[: flags[0] == "documents"], *(word for pair in pairs for word in pair)] == expected


def test_server_refuses_a_module_beside_a_processor(inturn: Inturn, folder: Path) -> None:
    (folder / "inturn.toml").write_text('module = "documents"\nprocessor = "documents:read"\n')
    refused = inturn("serve", "--workers", "1", "--port", "0")
    assert (refused.returncode, "not both" in refused.stderr) == (2, True), refused.stderr
