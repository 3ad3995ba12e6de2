"""Write charts as self-contained SVG; colours follow the reader's light or dark setting.

Colours are never needed: bars follow the order of the legend, lines differ in their dashes, marks in their shapes, and
values are written.
"""

from collections.abc import Callable, Sequence
from html import escape
from typing import Final, NamedTuple

from inturn.analysis.reports.scales import Scale

WIDTH: Final = 760
WIDE_WIDTH: Final = 960
"""For plots side by side."""
LABEL_WIDTH: Final = 206
VALUE_WIDTH: Final = 84
"""Room for the value behind the longest bar."""
BAR_HEIGHT: Final = 15
ROW_GAP: Final = 12
TOP_MARGIN: Final = 46
BOTTOM_MARGIN: Final = 26
PLOT_HEIGHT: Final = 240
LEFT_MARGIN: Final = 70
RIGHT_MARGIN: Final = 60
MAX_LABEL_CHARS: Final = 28

MARKER_PATHS: Final = (
    "M-3-3h6v6h-6z",
    "M0-4.5 4.5 0 0 4.5-4.5 0z",
    "M0-4 4 3.5h-8z",
    "M0 4-4-3.5h8z",
    "M-4 0a4 4 0 1 0 8 0 4 4 0 1 0-8 0z",
    "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
)
"""The marks of a scatter chart, one for each series."""

STYLE: Final = (
    "svg.chart{--page:#fff;--ink:#1a1d21;--soft:#565d66;--line:#dfe3e8;--s0:#64748b;--s1:#0369a1;--s2:#c2410c;"
    "--less:#15803d;--more:#be123c;--m1:#7c3aed;--m3:#0f766e;font:13px system-ui,sans-serif;background:var(--page)}"
    "@media(prefers-color-scheme:dark){svg.chart{--page:#15181c;--ink:#eceff2;--soft:#a9b1ba;--line:#343a42;"
    "--s0:#94a3b8;--s1:#7dd3fc;--s2:#fb923c;--less:#86efac;--more:#fda4af;--m1:#c4b5fd;--m3:#5eead4}}"
    ".chart text{fill:var(--ink)}.chart .soft{fill:var(--soft);font-size:11.5px}.chart .end{text-anchor:end}"
    ".chart .mid{text-anchor:middle}.chart .axis{stroke:var(--line);fill:none}.chart .goal{stroke:var(--more);"
    "stroke-dasharray:6 4;fill:none}.chart .b0{fill:var(--s0)}.chart .b1{fill:var(--s1)}.chart .b2{fill:var(--s2)}"
    ".chart .less{fill:var(--less)}.chart .more{fill:var(--more)}.chart .l0,.chart .l1,.chart .l2{fill:none;"
    "stroke-width:2;stroke-linejoin:round}.chart .l0{stroke:var(--s0);stroke-dasharray:2 4}"
    ".chart .l1{stroke:var(--s1)}.chart .l2{stroke:var(--s2);stroke-dasharray:8 4}"
    ".chart .m0{fill:var(--s2)}.chart .m1{fill:var(--m1)}.chart .m2{fill:var(--s1)}.chart .m3{fill:var(--m3)}"
    ".chart .m4{fill:var(--more)}.chart .m5{fill:var(--less)}.chart .marks{fill-opacity:.8}"
    ".chart .large{font-size:18px;font-weight:600}.chart .strong{font-weight:600}"
)
"""Series 0 is what was measured, 1 what it was like, 2 what it would be like."""


class Chart(NamedTuple):
    """One drawing: a name for its file, a title, what it shows in a sentence, and its inside."""

    name: str
    title: str
    description: str
    height: float
    body: str
    width: float = WIDTH

    def svg(self, *, standalone: bool = False) -> str:
        """The drawing; alone it brings its own style, on a page it uses the page's."""
        style = f"<style>{STYLE}</style>" if standalone else ""
        names = f"{self.name}-title {self.name}-about"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {self.width:g} {self.height:g}"'
            f' width="{self.width:g}" height="{self.height:g}" role="img" aria-labelledby="{names}">'
            f'<title id="{self.name}-title">{escape(self.title)}</title>'
            f'<desc id="{self.name}-about">{escape(self.description)}</desc>{style}{self.body}</svg>'
        )


class Row(NamedTuple):
    """A group of bars."""

    label: str
    values: Sequence[float | None]


class Series(NamedTuple):
    """A line of points."""

    style: int
    points: Sequence[tuple[float, float]]
    """From 0 to 1, both ways."""


ChartHeading = tuple[str, str, str]
"""Name of the file, title, what it shows."""


def bar_chart(
    heading: ChartHeading,
    legend: Sequence[tuple[int, str]],
    rows: Sequence[Row],
    scale: Scale,
    format_value: Callable[[float], str],
) -> Chart:
    """Bars side by side for each row, one a series; `legend` says the style and name of each."""
    wide = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    step = len(legend) * BAR_HEIGHT + ROW_GAP
    foot = TOP_MARGIN + len(rows) * step
    parts = [_legend(legend)]
    for tick in scale.ticks:
        x = LABEL_WIDTH + scale.position(tick) * wide
        parts.append(f'<path class="axis" d="M{x:.1f} {TOP_MARGIN - 6}V{foot}"/>')
        parts.append(f'<text class="soft mid" x="{x:.1f}" y="{foot + 16}">{escape(format_value(tick))}</text>')
    for number, row in enumerate(rows):
        y = TOP_MARGIN + number * step + ROW_GAP / 2
        middle = y + len(legend) * BAR_HEIGHT / 2 + 4
        parts.append(_label(row.label, LABEL_WIDTH - 10, middle))
        for place, ((style, _), value) in enumerate(zip(legend, row.values, strict=True)):
            parts.append(_bar(y + place * BAR_HEIGHT, style, value, (scale, wide, format_value)))
    return Chart(*heading, foot + BOTTOM_MARGIN, "".join(parts))


def _bar(y: float, style: int, value: float | None, layout: tuple[Scale, float, Callable[[float], str]]) -> str:
    scale, wide, written = layout
    if value is None:
        return ""
    long = max(1.0, scale.position(value) * wide)
    return (
        f'<rect class="b{style}" x="{LABEL_WIDTH}" y="{y:.1f}" width="{long:.1f}" height="{BAR_HEIGHT - 3}" rx="2"/>'
        f'<text class="soft" x="{LABEL_WIDTH + long + 6:.1f}" y="{y + BAR_HEIGHT - 5:.1f}">'
        f"{escape(written(value))}</text>"
    )


def change_chart(
    heading: ChartHeading,
    ends: tuple[str, str],
    rows: Sequence[tuple[str, float]],
    scale: Scale,
    format_value: Callable[[float], str],
) -> Chart:
    """Bars to the left for less and to the right for more; `ends` says what each side means."""
    middle = LABEL_WIDTH + (WIDTH - LABEL_WIDTH) / 2
    half = (WIDTH - LABEL_WIDTH) / 2 - VALUE_WIDTH
    step = BAR_HEIGHT + ROW_GAP / 2
    foot = TOP_MARGIN + len(rows) * step
    parts = [
        f'<text class="soft end" x="{middle - 10}" y="{TOP_MARGIN - 18}">← {escape(ends[0])}</text>',
        f'<text class="soft" x="{middle + 10}" y="{TOP_MARGIN - 18}">{escape(ends[1])} →</text>',
        f'<path class="axis" d="M{middle} {TOP_MARGIN - 8}V{foot}"/>',
    ]
    for number, (label, value) in enumerate(rows):
        y = TOP_MARGIN + number * step
        long = max(1.0, scale.position(abs(value)) * half)
        is_more = value > 0
        x = middle if is_more else middle - long
        beside = (middle + long + 6, "soft") if is_more else (middle - long - 6, "soft end")
        parts.append(_label(label, LABEL_WIDTH - 10, y + BAR_HEIGHT - 4))
        parts.append(
            f'<rect class="{"more" if is_more else "less"}" x="{x:.1f}" y="{y:.1f}" width="{long:.1f}"'
            f' height="{BAR_HEIGHT - 3}" rx="2"/>'
            f'<text class="{beside[1]}" x="{beside[0]:.1f}" y="{y + BAR_HEIGHT - 5:.1f}">'
            f"{escape(format_value(value))}</text>"
        )
    return Chart(*heading, foot + 12, "".join(parts))


class Axes(NamedTuple):
    """What is written along two axes: (place from 0 to 1, text) each, and what they count."""

    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    x_label: str
    goal: tuple[float, str] | None = None
    """A height to reach, and what it is."""


class Plot(NamedTuple):
    """The area of a plot in its drawing, in pixels."""

    left: float
    foot: float
    width: float
    height: float
    inset: float = 0
    """Room between the vertical axis and the first point."""

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is drawn; both coordinates are from 0 to 1."""
        return self.left + self.inset + x * (self.width - self.inset), self.foot - y * self.height

    def axes_svg(self, axes: Axes) -> str:
        """Draw the grid lines, the ticks and the goal."""
        parts = []
        for place, text in axes.y_ticks:
            y = self.at(0, place)[1]
            parts.append(f'<path class="axis" d="M{self.left:g} {y:.1f}h{self.width:g}"/>')
            parts.append(f'<text class="soft end" x="{self.left - 8:g}" y="{y + 4:.1f}">{escape(text)}</text>')
        for place, text in axes.x_ticks:
            x = self.at(place, 0)[0]
            parts.append(f'<text class="soft mid" x="{x:.1f}" y="{self.foot + 18:g}">{escape(text)}</text>')
        x = self.at(0.5, 0)[0]
        parts.append(f'<text class="soft mid" x="{x:.1f}" y="{self.foot + 38:g}">{escape(axes.x_label)}</text>')
        if axes.goal is not None:
            place, text = axes.goal
            y, right = self.at(0, place)[1], self.left + self.width
            parts.append(f'<path class="goal" d="M{self.left:g} {y:.1f}h{self.width:g}"/>')
            parts.append(f'<text class="soft end" x="{right:g}" y="{y - 5:.1f}">{escape(text)}</text>')
        return "".join(parts)


def line_chart(
    heading: ChartHeading, legend: Sequence[tuple[int, str]], series: Sequence[Series], axes: Axes, *, dots: bool
) -> Chart:
    """Lines over two axes."""
    plot = Plot(LEFT_MARGIN, TOP_MARGIN + PLOT_HEIGHT, WIDTH - LEFT_MARGIN - RIGHT_MARGIN, PLOT_HEIGHT)
    parts = [_legend(legend, of_lines=True), plot.axes_svg(axes)]
    for item in series:
        places = [plot.at(*point) for point in item.points]
        drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        parts.append(f'<path class="l{item.style}" d="M{drawn}"/>')
        if dots:
            parts += [f'<circle class="b{item.style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
    return Chart(*heading, plot.foot + 48, "".join(parts))


class Panel(NamedTuple):
    """One of several scatter plots side by side."""

    title: str
    points: Sequence[tuple[int, float, float]]
    """The number of the series, then both coordinates from 0 to 1."""


def scatter_chart(heading: ChartHeading, series: Sequence[str], panels: Sequence[Panel], axes: Axes) -> Chart:
    """Plots side by side with the same axes, a mark for each point; `series` are up to six names."""
    left, right, top, gap, height = 56, 20, 104, 52, 304
    foot, width = top + height, (WIDE_WIDTH - left - right - gap * (len(panels) - 1)) / len(panels)
    parts = [
        f'<text class="large" x="{left}" y="30">{escape(heading[1])}</text>',
        f'<text class="soft" x="{left}" y="50">{escape(heading[2])}</text>',
    ]
    for number, panel in enumerate(panels):
        plot = Plot(round(left + number * (width + gap), 1), foot, round(width, 1), height, inset=10)
        marks = [_mark(style, *plot.at(x, y)) for style, x, y in panel.points]
        parts.append(f'<text class="strong" x="{plot.left:g}" y="{top - 18}">{escape(panel.title)}</text>')
        parts += [plot.axes_svg(axes), '<g class="marks">', *marks, "</g>"]
    step = (WIDE_WIDTH - left) / len(series)
    for style, name in enumerate(series):
        x, y = left + 5 + style * step, foot + 74
        parts.append(f'{_mark(style, x, y - 4)}<text x="{x + 10:.1f}" y="{y}">{escape(name)}</text>')
    return Chart(*heading, foot + 92, "".join(parts), WIDE_WIDTH)


def _mark(style: int, x: float, y: float) -> str:
    return f'<path class="m{style}" transform="translate({x:.1f} {y:.1f})" d="{MARKER_PATHS[style]}"/>'


def _legend(legend: Sequence[tuple[int, str]], *, of_lines: bool = False) -> str:
    parts, x = [], 8.0
    for style, name in legend:
        if of_lines:
            parts.append(f'<path class="l{style}" d="M{x:.0f} 14h28"/>')
        else:
            parts.append(f'<rect class="b{style}" x="{x + 8:.0f}" y="8" width="12" height="12" rx="2"/>')
        parts.append(f'<text x="{x + 34:.0f}" y="18">{escape(name)}</text>')
        x += 58 + 7.2 * len(name)
    return "".join(parts)


def _label(text: str, x: float, y: float) -> str:
    short = text if len(text) <= MAX_LABEL_CHARS else f"{text[: MAX_LABEL_CHARS - 1]}…"
    return f'<text class="end" x="{x}" y="{y:.1f}">{escape(short)}<title>{escape(text)}</title></text>'
