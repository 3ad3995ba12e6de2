"""The figures of the fairness page are the simulator's."""

import importlib.util
from pathlib import Path
from types import ModuleType

from inturn.simulate import built_in

ROOT = Path(__file__).resolve().parent.parent.parent
QUICK = {"two-bulk", "flood"}


def fairness() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fairness", ROOT / "scripts" / "fairness.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_every_scenario_and_theory() -> None:
    module = fairness()
    shown = {match["name"] for match in module.TABLE.finditer(module.PAGE.read_text(encoding="utf-8"))}
    assert shown == {*built_in(), "erlang"}


def test_quick_tables_are_what_the_simulator_says_now() -> None:
    module = fairness()
    page = module.PAGE.read_text(encoding="utf-8")
    assert module.regenerated(page, QUICK.__contains__) == page


def test_no_difference_from_theory_exceeds_two_percent() -> None:
    page = fairness().PAGE.read_text(encoding="utf-8")
    table = page[page.index("<!-- table: erlang -->") :]
    rows = [row.split("|") for row in table.splitlines() if row.startswith("| ")]
    differences = [float(cells[6].strip().rstrip("%")) for cells in rows if cells[6].strip().endswith("%")]
    assert len(differences) == 4
    assert max(map(abs, differences)) <= 2
