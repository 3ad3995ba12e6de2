"""Real children in the real sandbox, with kreuzberg's PDF library unpacked once for all of them; real workers."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from boxed import Boxed, Told
from works import Process, Shop

from inturn.processing import parser, sandbox

WALL = 60.0


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    parser.prepare(folder)
    return folder


@pytest.fixture
def boxed(tmp_path: Path, library: Path) -> Boxed:
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def run(what: str, *arguments: object, cpu: int = 20) -> Told:
        command = [sys.executable, str(Path(__file__).with_name("boxed.py"))]
        given = [str(argument).replace("SCRATCH", str(scratch)) for argument in (scratch, cpu, what, *arguments)]
        told = {**sandbox.environment(library), "PYTHONPATH": str(Path(sandbox.__file__).parents[2])}
        done = subprocess.run([*command, *given], env=told, capture_output=True, text=True, timeout=WALL, check=False)  # noqa: S603
        return Told([json.loads(line) for line in done.stdout.splitlines()], done.returncode, done.stderr)

    return run


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A queue with workers; those that still run at the end are stopped."""
    made = Shop(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where processors leave signs."""
    folder = tmp_path / "signs"
    folder.mkdir()
    return folder


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start `workers.py` with these arguments, in a process of its own."""
    started: list[Process] = []
    folder = tmp_path / "scratch"
    folder.mkdir()

    def begin(*args: object) -> Process:
        process = Process(*args, folder=folder)
        started.append(process)
        return process

    try:
        yield begin
    finally:
        for process in started:
            process.close()
