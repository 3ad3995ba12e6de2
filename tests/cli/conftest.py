"""`inturn` as a person runs it, in a folder of its own: forked, in an interpreter of its own, or in this process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import forked_cli
import inturn as package
from inturn import cli


class CommandResult(NamedTuple):
    """How a run ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """What a run that went well printed with --json."""
        assert self.returncode == 0, self.stderr
        return [json.loads(line) for line in self.stdout.splitlines()]


@pytest.fixture
def environment() -> dict[str, str]:
    """Ours, without what would change the output, and with the package under test first."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(forked_cli.REMOVED_ENV_PREFIXES)}
    inherited = [str(Path(part).absolute()) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    path = os.pathsep.join([*inherited, str(Path(package.__file__).parents[1])])
    return ours | {"PYTHONPATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "TZ": "UTC"}


@pytest.fixture
def inturn(tmp_path: Path, environment: dict[str, str]) -> Callable[..., CommandResult]:
    """Run `inturn` with these arguments, forked from a warm process; keywords are variables of its environment."""
    return _runner(forked_cli.command, tmp_path, environment)


@pytest.fixture
def inturn_alone(tmp_path: Path, environment: dict[str, str]) -> Callable[..., CommandResult]:
    """The same in an interpreter of its own: for what start-up decides, at ten times the cost."""
    return _runner(lambda *args: [sys.executable, "-m", "inturn.cli", *args], tmp_path, environment)


def _runner(
    command: Callable[..., list[str]], folder: Path, environment: dict[str, str]
) -> Callable[..., CommandResult]:
    def run(*args: str, **more: str) -> CommandResult:
        done = subprocess.run(  # noqa: S603 - our own
            command(*args),
            cwd=folder,
            env=environment | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def inturn_here(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CommandResult]:
    """The same in this process, ten times as fast; each command still opens the store anew."""
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)

    def run(*args: str, **more: str) -> CommandResult:
        with monkeypatch.context() as patch:
            for name, value in (environment | more).items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["inturn", *args])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        capture_result = capsys.readouterr()
        code = ended.value.code
        return CommandResult(code if isinstance(code, int) else 0, capture_result.out, capture_result.err)

    return run
