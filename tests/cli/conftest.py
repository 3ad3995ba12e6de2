"""`inturn` as a person runs it: a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import inturn as package
from inturn import cli

Run = subprocess.CompletedProcess[str]
HOSTILE = ("INTURN_", "LC_", "LANG", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TYPER", "TERM")


@pytest.fixture
def environment() -> dict[str, str]:
    """Ours, without what would change the output, and with the package under test first."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(HOSTILE)}
    inherited = [str(Path(each).absolute()) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    path = os.pathsep.join([*inherited, str(Path(package.__file__).parents[1])])
    return ours | {"PYTHONPATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "TZ": "UTC"}


@pytest.fixture
def inturn(tmp_path: Path, environment: dict[str, str]) -> Callable[..., Run]:
    """Run `inturn` with these arguments; keywords are variables of its environment."""

    def run(*args: str, **more: str) -> Run:
        command = [sys.executable, "-m", "inturn.cli", *args]
        return subprocess.run(  # noqa: S603 - our own
            command,
            cwd=tmp_path,
            env=environment | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture
def inturn_here(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Run]:
    """The same in this process, ten times as fast: for the many ways to be wrong."""
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    def run(*args: str) -> Run:
        monkeypatch.setattr(sys, "argv", ["inturn", *args])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr()
        code = ended.value.code
        return Run(["inturn", *args], code if isinstance(code, int) else 0, told.out, told.err)

    return run
