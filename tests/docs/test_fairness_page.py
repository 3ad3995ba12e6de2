"""The figures of the fairness page are the simulator's."""

import importlib.util
from pathlib import Path
from types import ModuleType

from inturn.analysis import built_in_scenarios

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
    page = module.PAGE.read_text(encoding="utf-8")
    shown = {match["name"] for match in module.TABLE.finditer(page)}
    assert shown >= {"erlang", "ranges", "charges", "slots"}
    assert [name for name in built_in_scenarios() if name not in shown and f"`{name}`" not in page] == []


def test_quick_tables_are_what_the_simulator_says_now() -> None:
    module = fairness()
    page = module.PAGE.read_text(encoding="utf-8")
    assert module.regenerate(page, QUICK.__contains__) == page


def ranges(page: str) -> list[list[str]]:
    table = page[page.index("<!-- table: ranges -->") :]
    table = table[: table.index("<!-- end -->")]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines() if row.startswith("| `")]


def test_quick_ranges_are_what_the_simulator_says_now() -> None:
    module = fairness()
    shown = ranges(module.PAGE.read_text(encoding="utf-8"))
    assert len(shown) == len(module.FIGURES)
    for figure, row in zip(module.FIGURES, shown, strict=True):
        assert row[:4] == [f"`{figure.scenario}`", f"`{figure.discipline}`", figure.group, figure.figure]
        if figure.scenario == "two-bulk":
            assert row == list(module.range_row(figure))


def test_the_text_states_every_range_of_the_table() -> None:
    module = fairness()
    page = module.PAGE.read_text(encoding="utf-8")
    text = " ".join(module.TABLE.sub("", page).split())
    for *_, lowest, highest in ranges(page):
        assert f"{lowest.strip('+ %')} to {highest.strip('+')}" in text


def test_the_design_states_the_range_of_endless_newcomers() -> None:
    (row,) = (
        row
        for row in ranges(fairness().PAGE.read_text(encoding="utf-8"))
        if row[:3:2] == ["`newcomers`", "regular"] and row[1] == "`fair`"
    )
    design = (ROOT / "docs" / "design" / "README.md").read_text(encoding="utf-8")
    lowest, highest = (f"{float(cell.replace(',', '')):,.0f}" for cell in row[4:])
    assert f"within {lowest} to {highest} s" in " ".join(design.split())


def test_no_difference_from_theory_exceeds_two_percent() -> None:
    page = fairness().PAGE.read_text(encoding="utf-8")
    table = page[page.index("<!-- table: erlang -->") :]
    rows = [row.split("|") for row in table.splitlines() if row.startswith("| ")]
    differences = [float(cells[6].strip().rstrip("%")) for cells in rows if cells[6].strip().endswith("%")]
    assert len(differences) == 4
    assert max(map(abs, differences)) <= 2
