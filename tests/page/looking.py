"""What every page must be like, however it is shown: checks that run in the page, and axe."""

import functools
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from inturn.i18n import page_entries

from .conftest import HOSTILE

LOOKS = Path(__file__).with_name("checks.js").read_text().strip().removesuffix(";")
AXE = Axe()
RULES = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
PAGES = {
    "overview": "/",
    "customers": "/customers",
    "customer": f"/customers/{quote(HOSTILE, safe='')}",
    "documents": "/documents?state=failed&state=running",
    "document": "/documents/{id}",
    "upload": "/upload",
    "policy": "/policy",
    "simulator": "/simulator",
    "priority": "/priority",
    "audit": "/audit",
    "keys": "/keys",
    "settings": "/settings",
}
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


def ready(page: Page, name: str) -> None:
    """Until a page is shown, and its first drawing is done."""
    page.wait_for_selector(f".page-{name}", timeout=15_000)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def problems(page: Page, language: str) -> list[str]:
    """Whatever is cut, overlaps, scrolls sideways, moves or is not translated, and what the browser had to forbid."""
    result: list[str] = page.evaluate(LOOKS, {"texts": _texts(language), "english": _texts("en")})
    forbidden: list[str] = page.evaluate("window.violations ?? []")
    return [*result, *(f"forbidden by the policy: {item}" for item in forbidden)]


def barriers(page: Page) -> list[str]:
    """What axe finds."""
    answer: dict[str, Any] = AXE.run(page, options=RULES).response
    return [f"{item['id']}: {item['nodes'][0]['html'][:160]}" for item in answer["violations"]]


@functools.cache
def _texts(language: str) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads(json.dumps(page_entries(language)))
    return entries
