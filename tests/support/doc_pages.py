"""The code blocks of README.md and of the pages below docs/, and a shell to run them in."""

import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import forked_cli
from waiting import wait_until

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
FENCE = re.compile(r"^ *```(.*)$")
TIMEOUT_SECONDS = 60


class Block(NamedTuple):
    """One block of code."""

    page: str
    line: int
    language: str
    text: str


def _blocks(page: str, text: str) -> Iterator[Block]:
    begun: tuple[int, str] | None = None
    body: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and begun is None:
            begun, body = (number, fence[1].strip()), []
        elif fence and begun is not None:
            yield Block(page, *begun, "\n".join(body) + "\n")
            begun = None
        else:
            body.append(line)
    assert begun is None, f"{page}:{begun} has no end"


BLOCKS = [block for page, text in PAGES.items() for block in _blocks(page, text)]


def blocks(page: str, language: str) -> list[Block]:
    """Those of a page in a language, in order."""
    return [block for block in BLOCKS if (block.page, block.language) == (page, language)]


def commands(block: Block) -> list[str]:
    """The command lines of a block of `console` or `sh`, without what they print."""
    lines = block.text.splitlines()
    if block.language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip()]


class Shell:
    """Runs command lines as somebody types them, in a folder of its own; `inturn` is the one under test."""

    def __init__(self, folder: Path, environment: Mapping[str, str], replaced: Mapping[str, str]) -> None:
        self.folder = folder
        self._replaced = replaced
        programs = folder / "bin"
        programs.mkdir()
        for name, command in (("inturn", forked_cli.command()), ("pytest", [sys.executable, "-m", "pytest"])):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            program.chmod(0o755)
        self._environment = {**environment, "PATH": f"{programs}:{environment['PATH']}", "INTURN_PORT": "0"}

    def run(self, command: str) -> str:
        """To its end, which must be a good one; what it printed."""
        for old, new in self._replaced.items():
            command = command.replace(old, new)
        done = subprocess.run(  # noqa: S603 - our own pages
            ["/bin/sh", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run_until(self, command: str, is_enough: Callable[[str], bool]) -> None:
        """One that goes on until it is told to stop, once it has done enough by what it has logged."""
        with subprocess.Popen(  # noqa: S603 - our own pages
            ["/bin/sh", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            lines: list[str] = []
            listener = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
            listener.start()
            try:
                _wait_for(lambda: is_enough("".join(lines)), process)
                process.send_signal(signal.SIGTERM)
                assert process.wait(TIMEOUT_SECONDS) == 0
            except (AssertionError, subprocess.TimeoutExpired) as error:
                process.kill()
                raise AssertionError("".join(lines)) from error
            listener.join()


def _wait_for(is_enough: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    wait_until(lambda: is_enough() or process.poll() is not None)
    assert is_enough()
