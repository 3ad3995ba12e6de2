"""In forced colours (Windows high contrast) no bar, dot, badge or mark of the page vanishes."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from http_server import ServerProcess
from page_checks import PAGES, SOAK, axe_violations, go, problems, wait_until_ready

from .conftest import WIDTHS

Visit = Callable[..., Page]
VANISHED = """() => {
  const style = (node, pseudo) => getComputedStyle(node, pseudo);
  const isClear = (colour) => /, 0\\)$|transparent/.test(colour);
  const ground = (node) => {
    for (let box = node; box !== null; box = box.parentElement) {
      const colour = style(box).backgroundColor;
      if (!isClear(colour)) return colour;
    }
    return null;
  };
  const hasEdge = (own) => ["Top", "Left", "Bottom", "Right"].some((side) => parseFloat(own[`border${side}Width`]) > 0)
    || (own.outlineStyle !== "none" && parseFloat(own.outlineWidth) > 0);
  const lost = [];
  for (const node of document.querySelectorAll("main *")) {
    if (node instanceof SVGElement || !node.checkVisibility()) continue;
    if (node.closest("button, input, select, textarea")) continue;
    for (const pseudo of [null, "::before"]) {
      const own = style(node, pseudo);
      if (pseudo === null ? node.childNodes.length > 0 : own.content !== '""') continue;
      const [width, height] = pseudo === null
        ? [node.getBoundingClientRect().width, node.getBoundingClientRect().height]
        : [parseFloat(own.width), parseFloat(own.height)];
      if (!(width > 2 && height > 2) || isClear(own.backgroundColor) || hasEdge(own)) continue;
      const behind = ground(pseudo === null ? node.parentElement : node);
      if (own.backgroundColor === behind) lost.push(`${node.tagName}.${node.className}${pseudo ?? ""}`);
    }
  }
  for (const badge of document.querySelectorAll("main .badge")) if (!hasEdge(style(badge))) lost.push(badge.className);
  return [...new Set(lost)];
}"""


THEMES = ("light", "dark")


@pytest.mark.parametrize("first_theme", THEMES if SOAK else THEMES[:1])
def test_no_mark_vanishes_in_forced_colours(shared: ServerProcess, visit: Visit, first_theme: str) -> None:
    """Pages have the themes in turns; a soak shows each page in both."""
    with shared.client() as client:
        (document,) = client.get("/v1/documents", params={"state": "running", "limit": 1}).json()["documents"]
    page = visit(shared.url)
    result = []
    for place, (name, path) in enumerate(PAGES.items(), THEMES.index(first_theme)):
        dark = place % 2 == 1
        across, down = WIDTHS["phone" if dark else "wide"]
        page.set_viewport_size({"width": across, "height": down})
        page.emulate_media(forced_colors="active", color_scheme="dark" if dark else "light")
        go(page, shared.url + path.format(id=document["id"]))
        wait_until_ready(page, name)
        assert page.evaluate("matchMedia('(forced-colors: active)').matches")
        lost = [*page.evaluate(VANISHED), *problems(page, "en"), *axe_violations(page)]
        result += [f"{name}: {problem}" for problem in lost]
    assert result == []


def test_the_page_that_is_shown_and_what_is_chosen_are_marked_in_forced_colours(
    shared: ServerProcess, visit: Visit
) -> None:
    page = visit("about:blank")
    page.emulate_media(forced_colors="active")
    page.goto(f"{shared.url}/settings")
    here = page.get_by_role("navigation").get_by_role("link", name="Settings")
    there = page.get_by_role("navigation").get_by_role("link", name="Customers")
    edge = "(node) => getComputedStyle(node).borderInlineStartWidth"
    expect(here).to_have_attribute("aria-current", "page")
    assert here.evaluate(edge) == "4px"
    assert there.evaluate(edge) == "0px"
    colours = {
        page.evaluate(
            "(name) => { const node = document.createElement('i'); node.className = name; document.body.append(node);"
            " const own = getComputedStyle(node);"
            " return own.getPropertyValue('--series') + own.getPropertyValue('--dash'); }",
            name,
        )
        for name in ("series-p50", "series-p95", "series-p99")
    }
    assert len(colours) == 3
    primary = page.get_by_role("button", name=re.compile("Pause queue")).first
    primary.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert axe_violations(page) == []


def test_the_chosen_chart_and_its_areas_are_told_apart_in_forced_colours(shared: ServerProcess, visit: Visit) -> None:
    page = visit("about:blank")
    page.emulate_media(forced_colors="active")
    page.goto(f"{shared.url}/?tab=throughput")
    outline = "(node) => getComputedStyle(node).outlineStyle"
    for name in ("Throughput by customer", "1 h"):
        assert page.get_by_role("tab", name=name, exact=True).evaluate(outline) == "solid"
    assert page.get_by_role("tab", name="Wait time").evaluate(outline) == "none"
    names = [*(f"series-{number}" for number in range(1, 7)), "series-others"]
    names += [f"level-{level} series-level" for level in (1, 5, 9)]
    colours = page.evaluate(
        "(names) => names.map((name) => { const node = document.createElement('i'); node.className = name;"
        " node.style.color = 'var(--series)'; node.style.forcedColorAdjust = 'none'; document.body.append(node);"
        " return getComputedStyle(node).color; })",
        names,
    )
    assert len(set(colours)) == len(names)
