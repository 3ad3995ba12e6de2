"""Check a rendered page: its layout and texts with a script in the page, its accessibility with axe."""

import functools
import json
import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from inturn.i18n import LANGUAGES, page_entries

HOSTILE = "<script>alert('customer')</script>"
HOSTILE_DOCUMENT = "<img src=x onerror=alert('document')>.pdf"
LAYOUT_CHECKS = Path(__file__).with_suffix(".js").read_text().strip().removesuffix(";")
AXE = Axe()
SOAK = os.environ.get("INTURN_SOAK") == "1"
AXE_CONTEXT = {} if SOAK else {"exclude": [["tbody tr:nth-child(n+7)"], ["li:nth-child(n+9)"], ["svg *"]]}
"""Of many rows and items of one kind axe sees the first ones: contrast costs it milliseconds for each text."""
AXE_OPTIONS = {
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"target-size": {"enabled": True}},
}
"""`target-size` (24 px) is off by default."""
PAGES: Final = {
    "overview": "/",
    "customers": "/customers",
    "customer": f"/customers/{quote(HOSTILE, safe='')}",
    "documents": "/documents?state=failed&state=running",
    "document": "/documents/{id}",
    "upload": "/upload",
    "failures": "/failures?range=all",
    "queues": "/queues",
    "tasks": "/tasks",
    "task": "/tasks/{id}",
    "workers": "/workers",
    "policy": "/policy",
    "policy-try": "/policy?tab=try",
    "policy-simulator": "/simulator",
    "policy-versions": "/policy?tab=versions",
    "priority": "/priority",
    "audit": "/audit",
    "keys": "/keys",
    "settings": "/settings",
}
"""Every page, and every tab of one, by its name: page-tab."""
RECORD_CSP_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


def languages(*some: str) -> tuple[str, ...]:
    """All languages in a soak, else these: `test_matrix` shows every page in every language."""
    return LANGUAGES if SOAK else some


def go(page: Page, url: str) -> None:
    """Navigate within the open page: faster, and stylesheets of earlier pages stay loaded as they do for users."""
    if SOAK or urlsplit(page.url).netloc != urlsplit(url).netloc:
        page.goto(url)
    else:
        page.evaluate(
            "(url) => { history.pushState(null, '', url); dispatchEvent(new PopStateEvent('popstate')); }", url
        )


def wait_until_ready(page: Page, name: str) -> None:
    """Wait until a page is shown and drawn for the first time."""
    place, _, tab = name.partition("-")
    page.wait_for_selector(f".page-{place}", timeout=60_000)
    if tab:
        page.wait_for_selector(f".tab[aria-current][href*='tab={tab}']", timeout=60_000)
        page.wait_for_selector(".tab-body:visible .panel", timeout=60_000)
    if name == "overview":  # the server measures shares some time after its start
        page.wait_for_selector(".share", timeout=60_000)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def problems(page: Page, language: str) -> list[str]:
    """List texts that are cut, overlap or are not translated, sideways scrolling, motion, and violations of the CSP."""
    messages: list[str] = page.evaluate(LAYOUT_CHECKS, {"texts": _texts(language), "english": _texts("en")})
    forbidden: list[str] = page.evaluate("window.violations ?? []")
    return [*messages, *(f"forbidden by the policy: {violation}" for violation in forbidden)]


def axe_violations(page: Page) -> list[str]:
    """List the accessibility violations that axe finds."""
    if not page.evaluate("'axe' in window"):  # its 570 kB are read once for all addresses of one page
        page.evaluate(AXE.axe_script)
    answer: dict[str, Any] = page.evaluate(
        "([context, options]) => axe.run(context ?? document, options)", [AXE_CONTEXT or None, AXE_OPTIONS]
    )
    return [f"{violation['id']}: {_describe(violation['nodes'][0])}" for violation in answer["violations"]]


def _describe(node: dict[str, Any]) -> str:
    """Describe an element that axe objects to, and its first reason."""
    reasons = [check["message"] for check in (*node["any"], *node["all"], *node["none"])]
    return f"{node['html'][:160]} ({'; '.join(reasons[:1])})"


@functools.cache
def _texts(language: str) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads(json.dumps(page_entries(language)))
    return entries
