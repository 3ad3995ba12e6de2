"""What customers really got, as a page."""

from collections.abc import Sequence
from typing import Final

from inturn.i18n import Texts
from inturn.model import SECOND
from inturn.simulate.estimates import Starts
from inturn.simulate.fairness import FairnessReport, Standing
from inturn.simulate.pages.charts import Chart, Row, bars
from inturn.simulate.pages.scales import even, length, lengths
from inturn.simulate.pages.shell import SHOWN, Cell, Page, figure, page, section, table, words

DRAWN: Final = 15
"""Customers in a chart."""
_HOW: Final = ("report_how_due", "report_how_harm", "report_how_starts")


def fairness_page(found: FairnessReport, texts: Texts) -> Page:
    """The whole page."""
    charts = _charts(found, texts)
    by_name = {each.name: figure(each) for each in charts}
    sections = [
        section(texts.text("report_waits"), by_name.get("waits", ""), _table(found, texts)),
        *(
            section(texts.text(key), words(texts.text(about), "soft"), by_name[name])
            for name, key, about in (
                ("shares", "report_shares", "chart_shares_about"),
                ("harm", "report_harm", "chart_harm_about"),
            )
            if name in by_name
        ),
        section(texts.text("report_starts"), *(words(each) for each in starts_told(found.starts, texts))),
        section(texts.text("replay_how"), *(words(texts.text(key)) for key in _HOW)),
    ]
    return page(texts, texts.text("report_title"), told(found, texts), sections, charts)


def told(found: FairnessReport, texts: Texts) -> list[str]:
    """What the report is of, in sentences."""
    since, until = texts.time(found.since), texts.time(found.until)
    customers = len(found.customers)
    said = [
        texts.text("replay_span", n=found.documents, customers=customers, since=since, until=until),
        texts.text("replay_workers", workers=found.workers),
    ]
    if found.is_cut:
        said.append(texts.text("replay_cut"))
    if found.crowded:
        return [*said, texts.text("report_crowded", time=texts.duration(round(found.crowded * SECOND)))]
    return [*said, texts.text("report_nobody")]


def starts_told(starts: Starts | None, texts: Texts) -> list[str]:
    """How good the expected starts were, in sentences."""
    if starts is None:
        return [texts.text("report_starts_none")]
    counts = {name: getattr(starts, name) for name in ("inside", "early", "late", "unknown")}
    said = [texts.text("report_starts_found", n=starts.asked, **counts)]
    if starts.median_error is not None and starts.median_width is not None:
        error, width = length(starts.median_error, texts), length(starts.median_width, texts)
        said.append(texts.text("report_starts_error", error=error, width=width))
    return said


def share(value: float | None, texts: Texts) -> str:
    """A part of 1 in percent."""
    return "–" if value is None else f"{texts.number(round(value * 100, 1))} %"  # noqa: RUF001 - no figure


def _charts(found: FairnessReport, texts: Texts) -> list[Chart]:
    largest = sorted(found.customers, key=lambda each: (-each.documents, each.customer))[:DRAWN]
    charts = []
    waited = [each for each in largest if each.waits is not None]
    if waited:
        rows = [Row(each.customer, [each.waits.p50, each.waits.p95, each.waits.worst]) for each in waited if each.waits]
        legend = [(0, texts.text("head_p50")), (1, texts.text("head_p95")), (2, texts.text("head_worst"))]
        longest = max(row.values[2] or 0 for row in rows)
        named = ("waits", texts.text("report_waits"), texts.text("chart_waits_about"))
        charts.append(bars(named, legend, rows, lengths(longest), lambda value: length(value, texts)))
    crowded = [each for each in largest if each.received is not None and each.due is not None]
    if crowded:
        charts.append(_shares(crowded, texts))
    harmful = [each for each in found.customers[:DRAWN] if each.harm_done >= 1]
    if harmful:
        rows = [Row(each.customer, [each.harm_done, each.harm_suffered]) for each in harmful]
        legend = [(2, texts.text("head_harm_done")), (0, texts.text("head_harm_suffered"))]
        highest = max(value or 0 for row in rows for value in row.values)
        named = ("harm", texts.text("report_harm"), texts.text("chart_harm_about"))
        charts.append(bars(named, legend, rows, lengths(highest), lambda value: length(value, texts)))
    return charts


def _shares(customers: Sequence[Standing], texts: Texts) -> Chart:
    rows = [Row(each.customer, [(each.due or 0) * 100, (each.received or 0) * 100]) for each in customers]
    legend = [(1, texts.text("head_due")), (2, texts.text("head_received"))]
    scale = even(max(value or 0 for row in rows for value in row.values))
    named = ("shares", texts.text("report_shares"), texts.text("chart_shares_about"))
    return bars(named, legend, rows, scale, lambda value: f"{texts.number(round(value, 1))} %")


def _table(found: FairnessReport, texts: Texts) -> str:
    rows: list[Sequence[Cell | str]] = [row(each, texts) for each in found.customers[:SHOWN]]
    caption = texts.text("replay_shown", n=len(rows), total=len(found.customers))
    return table(caption, headings(texts), rows)


def headings(texts: Texts) -> list[str]:
    """Of a table of customers."""
    waits = ("head_p50", "head_p95", "head_worst")
    shares = ("head_received", "head_due", "head_harm_done", "head_harm_suffered")
    return [texts.text(key) for key in ("head_customer", "head_documents", *waits, "head_worked", *shares)]


def row(each: Standing, texts: Texts) -> list[str]:
    """A customer's line of that table."""
    waits = ["–"] * 3 if each.waits is None else [length(value, texts) for value in each.waits[1:]]  # noqa: RUF001
    return [
        each.customer,
        texts.number(each.documents),
        *waits,
        length(each.worked, texts),
        share(each.received, texts),
        share(each.due, texts),
        length(each.harm_done, texts),
        length(each.harm_suffered, texts),
    ]
