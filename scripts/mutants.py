"""Breaks the code on purpose, one promise at a time, and checks that the promise's test notices.

Each mutant in `tests/mutants.toml` names a file, a piece of it, what replaces it, and the tests that must fail. A piece
that does not stand exactly once in its file is an error: the mutant has outlived the code.

    python scripts/mutants.py [WORD …]      only mutants whose name contains one of the words
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MUTANTS_FILE = ROOT / "tests" / "mutants.toml"
MAX_PARALLEL = 2
PYTEST_NO_TESTS = 5
PYTEST_FAILED = 1


class Mutant(NamedTuple):
    """One way to break a promise."""

    name: str
    file: str
    old: str
    new: str
    tests: list[str]


def read() -> list[Mutant]:
    """All mutants, in the order of the file."""
    stored = tomllib.loads(MUTANTS_FILE.read_text(encoding="utf-8"))
    return [Mutant(name, **item) for name, item in stored.items()]


def mutate(mutant: Mutant, source: Path) -> None:
    """Put the mutant's piece into a copy of the source."""
    path = source / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        sys.exit(f"mutant {mutant.name!r}: its piece stands {text.count(mutant.old)} times in {mutant.file}, not once")
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")


def is_killed(mutant: Mutant) -> bool:
    """Whether the named tests fail on the mutant, and for no other reason than an assertion or error in them."""
    with tempfile.TemporaryDirectory(prefix="inturn-mutant-") as folder:
        copy = Path(folder)
        for name in ("src", "examples", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        mutate(mutant, copy)
        environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "CI": "true"}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutant.tests]
        done = subprocess.run(  # noqa: S603 - our own tests
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
    if done.returncode not in {0, PYTEST_FAILED}:
        sys.exit(
            f"mutant {mutant.name!r}: pytest ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-1000:]}"
        )
    return done.returncode == PYTEST_FAILED


def main() -> None:
    """Run them all and say which lived."""
    words = sys.argv[1:]
    mutants = [mutant for mutant in read() if not words or any(word in mutant.name for word in words)]
    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        killed = []
        for mutant, dead in zip(mutants, pool.map(is_killed, mutants), strict=True):
            print(f"{'killed' if dead else 'LIVES '} {mutant.name}", flush=True)
            killed.append(dead)
    print(f"{sum(killed)} passed, {len(killed) - sum(killed)} failed")
    sys.exit(0 if killed and all(killed) else 1)


if __name__ == "__main__":
    main()
