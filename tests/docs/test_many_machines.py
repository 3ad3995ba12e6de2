"""The page on many machines: its commands exist, its links lead somewhere, and its units are what they should be."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from inturn.cli import app
from inturn.config import SETTING_NAMES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "many-machines.md").read_text(encoding="utf-8")
UNITS = sorted((DOCS / "systemd").iterdir())
WORKER = (DOCS / "systemd" / "inturn-worker@.service").read_text(encoding="utf-8")


def options(name: str) -> set[str]:
    command = typer.main.get_command(app).commands[name]
    return {option for param in command.params for option in param.opts}


def test_every_command_and_option_of_page_and_units_exists() -> None:
    text = "\n".join([PAGE, *(unit.read_text(encoding="utf-8") for unit in UNITS)])
    used = re.findall(r"(?:^\$ |`|/bin/)inturn ([a-z]+)([^`\n]*)", text, re.MULTILINE)
    assert len(used) > 15
    for name, rest in used:
        assert set(re.findall(r"--[a-z-]+", rest)) <= options(name), name


def test_every_link_leads_somewhere() -> None:
    for name, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", PAGE):
        assert (DOCS / name).exists(), name
        headings = re.findall(r"^#+ (.*)$", (DOCS / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert not anchor or anchor in {
            re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings
        }


def test_a_worker_has_time_to_end_by_itself() -> None:
    (grace,) = re.findall(r"^INTURN_GRACE=(\d+)$", PAGE, re.MULTILINE)
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", WORKER, re.MULTILINE)
    assert int(stop) > int(grace)
    assert "KillMode=mixed" in WORKER
    assert "KillSignal=SIGTERM" in WORKER


def test_every_setting_of_the_hosts_exists() -> None:
    named = re.findall(r"^INTURN_([A-Z]+)=", PAGE, re.MULTILINE)
    assert len(named) == 4
    assert {item.lower() for item in named} <= set(SETTING_NAMES)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here: apt-get install systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_every_line(unit: Path, tmp_path: Path) -> None:
    for item in UNITS:  # a timer wants its service beside it
        text = item.read_text(encoding="utf-8").replace("/opt/inturn/bin/inturn", "/bin/true")
        (tmp_path / item.name).write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", str(tmp_path / unit.name)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - our own
    assert str(tmp_path) not in said.stderr
    assert said.returncode == 0, said.stderr
