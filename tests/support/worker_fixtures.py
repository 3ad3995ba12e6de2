"""Fixtures for tests of the worker, the sandbox and the extractor; each folder's conftest.py imports those it uses."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import traced_children
from inturn.extract import parser
from inturn.sandbox import confinement
from sandbox_child import ChildResult, RunInSandbox
from worker_harness import ScriptProcess, WorkerHarness

WALL = 60.0


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    parser.prepare(folder)
    return folder


@pytest.fixture
def run_in_sandbox(tmp_path: Path, library: Path) -> RunInSandbox:
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def run(what: str, *arguments: object, cpu: int = 20) -> ChildResult:
        command = [sys.executable, str(Path(__file__).with_name("sandbox_child.py"))]
        given = [str(argument).replace("SCRATCH", str(scratch)) for argument in (scratch, cpu, what, *arguments)]
        reported = {**confinement.child_environment(library), "PYTHONPATH": str(Path(confinement.__file__).parents[2])}
        reported |= traced_children.environment_in(scratch)
        done = subprocess.run(  # noqa: S603 - our own
            [*command, *given], env=reported, capture_output=True, text=True, timeout=WALL, check=False
        )
        traced_children.collect_from(scratch)
        return ChildResult([json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr)

    return run


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkerHarness]:
    """A queue with workers; those that still run at the end are stopped."""
    made = WorkerHarness(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def marker_dir(tmp_path: Path) -> Path:
    """Where processors leave signs."""
    folder = tmp_path / "signs"
    folder.mkdir()
    return folder


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ScriptProcess]]:
    """Start `worker_process.py` with these arguments, in a process of its own."""
    started: list[ScriptProcess] = []
    folder = tmp_path / "scratch"
    folder.mkdir()

    def begin(*args: object) -> ScriptProcess:
        process = ScriptProcess(*args, folder=folder)
        started.append(process)
        return process

    try:
        yield begin
    finally:
        for process in started:
            process.close()
