"""What checks the page's JavaScript, and what tsc and eslint do not see: exports and styles that nothing uses."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT

STATIC = ROOT / "src" / "inturn" / "http" / "static"
MODULES = {path: path.read_text(encoding="utf-8") for path in sorted(STATIC.rglob("*.js"))}
STYLES = {path: path.read_text(encoding="utf-8") for path in sorted(STATIC.rglob("*.css"))}
CODE = re.sub(
    r"/\*.*?\*/",
    "",
    "\n".join([*MODULES.values(), (STATIC / "index.html").read_text(encoding="utf-8")]),
    flags=re.DOTALL,
)
LITERALS = "\n".join(re.findall(r"\"[^\"\n]*\"|`[^`]*`", CODE))
ENTRY_POINT = "mount"
"""What the router calls of each page."""


def lint_page(stamp: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(  # noqa: S603 - our own script
        [ROOT / "scripts" / "lint_page.sh", stamp],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_its_tools_the_page_is_not_checked_at_home_and_fails_in_ci(tmp_path: Path) -> None:
    assert lint_page(tmp_path / "missing").returncode == 0
    assert lint_page(tmp_path / "missing", CI="true").returncode == 1


def test_lock_has_a_hash_and_no_address_of_every_package() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    assert [name for name, package in packages.items() if name and not package["integrity"].startswith("sha512-")] == []
    assert [name for name, package in packages.items() if "resolved" in package] == []


def test_tools_have_one_version_each() -> None:
    tools = json.loads((ROOT / "package.json").read_text())["devDependencies"]
    assert [name for name, version in tools.items() if not re.fullmatch(r"[0-9]+(\.[0-9]+){2}", version)] == []


def test_types_of_the_api_come_from_its_description(tmp_path: Path) -> None:
    target = tmp_path / "api.d.ts"
    subprocess.run([sys.executable, ROOT / "scripts" / "page_types.py", target], check=True)  # noqa: S603
    written = target.read_text()
    assert "  type UploadLimits = { file: number; body: number; files: number };\n" in written
    assert '[M, P] extends ["GET", `/v1/documents/${string}/why`] ? Why :\n' in written
    assert written.index("`/v1/documents/counts`") < written.index('["GET", `/v1/documents/${string}`]')


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_every_export_is_imported(path: Path) -> None:
    """By name, for its type, or as a name of the module: `events.start`."""
    names = re.findall(r"^export (?:async )?(?:function\*?|const|let|class) (\w+)", MODULES[path], re.MULTILINE)
    others = "\n".join(text for other, text in MODULES.items() if other != path)
    imports = " ".join(re.findall(r"import (?:type )?\{([^}]*)\}", others))
    used = [*re.findall(r"\w+", imports), *re.findall(rf"\b{path.stem}(?:\.js\"\))?\.(\w+)", others)]
    assert [name for name in names if name != ENTRY_POINT and name not in used] == []


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_every_styled_class_is_used(path: Path) -> None:
    """A class may be put together: `level-${level}` uses all classes that begin with `level-`."""
    rules = re.sub(r"/\*.*?\*/", "", STYLES[path], flags=re.DOTALL)
    selectors = "\n".join(re.findall(r"([^{}]+)\{", rules))
    classes = set(re.findall(r"\.(-?[a-z][a-z0-9-]*)", selectors))
    families = tuple(re.findall(r"([a-z][a-z0-9-]*-)\$\{", CODE))
    unused = [name for name in classes if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", LITERALS)]
    assert sorted(name for name in unused if not name.startswith(families)) == []
