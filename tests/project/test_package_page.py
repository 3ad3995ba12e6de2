"""The text of the package page: made from README.md, and no link in it leads nowhere."""

import importlib.util
import re
import sys
import tarfile
import tomllib
from email.parser import BytesParser
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest

from .conftest import ROOT, run

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
RELATIVE = re.compile(r"\]\((?!https?://|#)[^)]*\)")


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (item for item in archive.namelist() if item.endswith("/METADATA"))
        metadata = BytesParser().parsebytes(archive.read(name))
    assert metadata["Description-Content-Type"] == "text/markdown"
    page = metadata.get_payload()
    assert isinstance(page, str)
    assert "pip install 'inturn[extract,server]'" in page
    assert RELATIVE.findall(page) == []
    assert "![" not in page


def test_the_files_that_the_page_names_are_in_the_source_distribution(hook: ModuleType, tmp_path: Path) -> None:
    page = hook.package_page(README)
    named = set(re.findall(r"`([a-zA-Z/_.-]+\.(?:md|py))`", page))
    assert len(named) > 15
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in named if name not in there} == set()
    assert "hatch_build.py" in there


def test_links_and_pictures_lead_to_the_repository_once_it_has_an_address(hook: ModuleType) -> None:
    page = hook.package_page(README, "https://forge.example/inturn")
    assert RELATIVE.findall(page) == []
    assert "](https://forge.example/inturn/blob/HEAD/docs/cli.md)" in page
    assert "](https://forge.example/inturn/blob/HEAD/bench/RESULTS.md#workers)" in page
    assert "](https://forge.example/inturn/raw/HEAD/docs/pictures/overview.png)" in page


def test_words_stay_and_addresses_of_others_too(hook: ModuleType) -> None:
    text = "See [the page](docs/a.md#b), [x](https://x.example) and [top](#top).\n\n![A picture](p.png)\n\nEnd."
    page = hook.package_page(text)
    assert page.startswith("See the page (`docs/a.md`), [x](https://x.example) and [top](#top).\n\nEnd.")


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#\s]+)", README):
        assert (ROOT / target).exists(), target


def test_the_extras_that_the_readme_names_are_there() -> None:
    named = {part for match in re.findall(r"inturn\[([a-z0-9,]+)\]", README) for part in match.split(",")}
    more = re.findall(r"^More extras: (.*?)\. ", README, re.MULTILINE | re.DOTALL)
    named |= set(re.findall(r"`([a-z0-9]+)`", more[0]))
    assert named <= set(EXTRAS)
    assert {"extract", "server", "postgres", "s3"} <= named
