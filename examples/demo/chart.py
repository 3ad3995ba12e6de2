"""The chart: how long each document waited, by when it came; Inturn on the left, first come first served on the right.

An SVG without scripts or anything from elsewhere; its colours follow the reader's light or dark setting.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from demo.timings import RunReport

WIDTH: Final = 960
HEIGHT: Final = 500
TOP, BOTTOM, LEFT, RIGHT, PANEL_GAP = 104, 92, 56, 20, 52
INSET: Final = 10
"""Between the axis and what came first."""
LIGHT_COLOURS: Final = ("#c2410c", "#7c3aed", "#0369a1", "#0f766e", "#be123c", "#15803d")
DARK_COLOURS: Final = ("#fb923c", "#c4b5fd", "#7dd3fc", "#5eead4", "#fda4af", "#86efac")
MARKER_PATHS: Final = (
    "M-3-3h6v6h-6z",
    "M0-4.5 4.5 0 0 4.5-4.5 0z",
    "M0-4 4 3.5h-8z",
    "M0 4-4-3.5h8z",
    "M-4 0a4 4 0 1 0 8 0 4 4 0 1 0-8 0z",
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
)
"""One for each customer, so that nobody needs the colours."""


class Panel(NamedTuple):
    """One half: where it begins, how wide it is, and what its axes reach to, in seconds."""

    x: float
    width: float
    max_arrival: float
    max_wait: float

    def position(self, at: float, wait: float) -> tuple[float, float]:
        """Where a document is drawn."""
        high = HEIGHT - TOP - BOTTOM
        across = INSET + at / self.max_arrival * (self.width - INSET)
        return self.x + across, HEIGHT - BOTTOM - wait / self.max_wait * high


def render_svg(report: RunReport, customers: Sequence[str]) -> str:
    """The whole file."""
    at = [(record.submitted - report.began) / 1e6 for record in report.records]
    ours = [record.wait / 1e6 for record in report.records]
    theirs = [item / 1e6 for item in report.first_come]
    latest, longest = _ceiling(max(at)), _ceiling(max(*ours, *theirs))
    width = (WIDTH - LEFT - RIGHT - PANEL_GAP) / 2
    numbers = [customers.index(record.customer) for record in report.records]
    halves = [
        _panel_svg(Panel(x, width, latest, longest), title, list(zip(numbers, at, waits, strict=True)))
        for x, title, waits in (
            (LEFT, "Inturn", ours),
            (LEFT + width + PANEL_GAP, "First come, first served (computed)", theirs),
        )
    ]
    body = "\n".join([_header(report), _legend(customers), *halves])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        f' role="img" aria-labelledby="title about">\n{_style()}\n{body}\n</svg>\n'
    )


def _header(report: RunReport) -> str:
    about = (
        f"{len(report.records)} documents, {report.slots} at a time; a mark is a document. On both sides the same"
        " arrivals and the same service times."
    )
    return (
        '<title id="title">How long each document waited</title>\n'
        f'<desc id="about">{about}</desc>\n'
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>\n'
        f'<text class="large" x="{LEFT}" y="30">How long each document waited</text>\n'
        f'<text class="small" x="{LEFT}" y="50">{about}</text>'
    )


def _style() -> str:
    def rules(page: str, ink: str, soft: str, line: str, colours: Sequence[str]) -> str:
        marks = "".join(f".c{n}{{fill:{colour}}}" for n, colour in enumerate(colours))
        return f".page{{fill:{page}}}text{{fill:{ink}}}.small{{fill:{soft}}}.line{{stroke:{line}}}{marks}"

    fonts = "text{font:13px system-ui,sans-serif}.large{font-size:18px;font-weight:600}.half{font-weight:600}"
    light = rules("#ffffff", "#1a1d21", "#565d66", "#dfe3e8", LIGHT_COLOURS)
    dark = rules("#15181c", "#eceff2", "#a9b1ba", "#343a42", DARK_COLOURS)
    small = ".small{font-size:11.5px}.end{text-anchor:end}.middle{text-anchor:middle}.marks{fill-opacity:.8}"
    return f"<style>{fonts}{small}{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"


def _legend(customers: Sequence[str]) -> str:
    step = (WIDTH - LEFT - RIGHT) / len(customers)
    result = []
    for number, customer in enumerate(customers):
        x, y = LEFT + 5 + number * step, HEIGHT - 18
        mark = f'<path class="c{number}" transform="translate({x:.1f} {y - 4})" d="{MARKER_PATHS[number]}"/>'
        result.append(f'{mark}<text x="{x + 10:.1f}" y="{y}">{escape(customer)}</text>')
    return "\n".join(result)


def _panel_svg(panel: Panel, title: str, documents: Sequence[tuple[int, float, float]]) -> str:
    marks = []
    for number, at, wait in sorted(documents):
        x, y = panel.position(at, wait)
        marks.append(f'<path class="c{number}" transform="translate({x:.1f} {y:.1f})" d="{MARKER_PATHS[number]}"/>')
    name = f'<text class="half" x="{panel.x:.1f}" y="{TOP - 18}">{title}</text>'
    return "\n".join([name, _axes(panel), '<g class="marks">', *marks, "</g>"])


def _axes(panel: Panel) -> str:
    result = []
    for wait in _ticks(panel.max_wait):
        y = panel.position(0, wait)[1]
        result.append(f'<path class="line" d="M{panel.x:.1f} {y:.1f}h{panel.width:.1f}"/>')
        result.append(f'<text class="small end" x="{panel.x - 8:.1f}" y="{y + 4:.1f}">{wait:g} s</text>')
    for at in _ticks(panel.max_arrival):
        x, y = panel.position(at, 0)
        result.append(f'<text class="small middle" x="{x:.1f}" y="{y + 18:.1f}">{at:g} s</text>')
    x, y = panel.position(panel.max_arrival / 2, 0)
    result.append(f'<text class="small middle" x="{x:.1f}" y="{y + 36:.1f}">when it came</text>')
    return "\n".join(result)


def _ceiling(value: float) -> float:
    """The next round number: where an axis ends."""
    step = _step(value)
    return max(step, math.ceil(value / step) * step)


def _ticks(end: float) -> list[float]:
    step = _step(end)
    return [round(number * step, 6) for number in range(round(end / step) + 1)]


def _step(value: float) -> float:
    """1, 2 or 5 times a power of ten: four to eight of them reach the value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (0.2, 0.5, 1, 2) if value <= 6 * step * power)
