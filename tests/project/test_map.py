"""CONTRIBUTING's map names every module and package of the product, and nothing else."""

import re

from long_files import LONG_FILES

from .conftest import ROOT

PACKAGE = ROOT / "src" / "inturn"


def map_entries() -> set[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    block = text.partition("    src/inturn/\n")[2].partition("    examples/demo/")[0]
    return set(re.findall(r"^      (\S+) ", block, re.MULTILINE))


def test_map_names_the_modules_and_packages_of_the_tree() -> None:
    modules = {path.name for path in PACKAGE.glob("*.py")}
    packages = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert map_entries() == modules | packages


def test_helpers_of_tests_have_unique_names() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith(("test_", "conftest"))]
    assert sorted(set(names)) == sorted(names)


def test_long_files_are_there() -> None:
    assert [name for name in LONG_FILES if not (ROOT / "tests" / name).is_file()] == []
