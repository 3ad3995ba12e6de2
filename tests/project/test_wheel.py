"""What users install: the wheel holds the package and its data, nothing else, and runs on its own."""

import json
import os
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

from .conftest import ROOT, installer, run

PACKAGE = ROOT / "src" / "inturn"


def test_holds_the_package_and_its_data(wheel: Path) -> None:
    scenarios = {f"inturn/analysis/scenarios/{path.name}" for path in PACKAGE.glob("analysis/scenarios/*.toml")}
    assert scenarios
    assert {"inturn/py.typed", *scenarios} <= names(wheel)


def test_holds_nothing_else(wheel: Path) -> None:
    parts = {part for name in names(wheel) for part in Path(name).parts}
    assert {Path(name).parts[0].split("-")[0] for name in names(wheel)} == {"inturn"}
    assert not parts & {"tests", "conftest.py", "__pycache__"}


def test_runs_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    run(*installer(), "--quiet", "--no-deps", "--target", target, wheel)
    path = os.pathsep.join([str(target), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    # -S: the environment's link to src/ is not followed, so only the wheel can answer.
    printed = run(sys.executable, "-S", "-m", "inturn.cli", "simulate", "--json", cwd=tmp_path, PYTHONPATH=path)
    assert "flood" in {json.loads(line)["scenario"] for line in printed.splitlines()}


def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())
