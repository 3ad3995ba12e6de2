"""What customers really got, as a page."""

from collections.abc import Sequence
from typing import Final

from inturn.analysis.fairness import CustomerFairness, FairnessReport
from inturn.analysis.forecast_accuracy import ForecastAccuracy
from inturn.analysis.reports.charts import Chart, Row, bar_chart
from inturn.analysis.reports.html_page import MAX_TABLE_ROWS, Cell, Page, figure, paragraph, render_page, section, table
from inturn.analysis.reports.scales import format_duration, format_jain, linear_scale, log_duration_scale
from inturn.i18n import Texts
from inturn.insights.explain import format_percent
from inturn.values import SECOND

MAX_CHART_CUSTOMERS: Final = 15
"""Customers in a chart."""
_METHOD_TEXTS: Final = ("report_how_due", "report_how_harm", "report_how_starts")


def fairness_page(report: FairnessReport, texts: Texts) -> Page:
    """The whole page."""
    charts = _charts(report, texts)
    by_name = {chart.name: figure(chart) for chart in charts}
    sections = [
        section(texts.text("report_waits"), by_name.get("waits", ""), _customer_table(report, texts)),
        *(
            section(texts.text(key), paragraph(texts.text(about), "soft"), by_name[name])
            for name, key, about in (
                ("shares", "report_shares", "chart_shares_about"),
                ("harm", "report_harm", "chart_harm_about"),
            )
            if name in by_name
        ),
        section(
            texts.text("report_starts"),
            *(paragraph(describe_forecast) for describe_forecast in describe_forecasts(report.starts, texts)),
        ),
        section(texts.text("replay_how"), *(paragraph(texts.text(key)) for key in _METHOD_TEXTS)),
    ]
    return render_page(texts, texts.text("report_title"), summary(report, texts), sections, charts)


def summary(report: FairnessReport, texts: Texts) -> list[str]:
    """What the report is of, in sentences."""
    since, until = texts.time(report.since), texts.time(report.until)
    customers = len(report.customers)
    said = [
        texts.text("replay_span", n=report.documents, customers=customers, since=since, until=until),
        texts.text("replay_workers", workers=report.workers),
    ]
    if report.is_cut:
        said.append(texts.text("replay_cut"))
    if report.jain is not None:
        seconds, documents = format_jain(report.jain, texts), format_jain(report.jain_documents, texts)
        said.append(texts.text("report_jain", seconds=seconds, documents=documents))
    if report.crowded:
        return [*said, texts.text("report_crowded", time=texts.duration(round(report.crowded * SECOND)))]
    return [*said, texts.text("report_nobody")]


def describe_forecasts(starts: ForecastAccuracy | None, texts: Texts) -> list[str]:
    """How good the expected starts were, in sentences."""
    if starts is None:
        return [texts.text("report_starts_none")]
    counts = {name: getattr(starts, name) for name in ("inside", "early", "late", "unknown")}
    said = [texts.text("report_starts_found", n=starts.asked, **counts)]
    if starts.median_error is not None and starts.median_width is not None:
        error, width = format_duration(starts.median_error, texts), format_duration(starts.median_width, texts)
        said.append(texts.text("report_starts_error", error=error, width=width))
    return said


def format_share(value: float | None, texts: Texts) -> str:
    """A part of 1 in percent."""
    return "–" if value is None else format_percent(value, texts)  # noqa: RUF001 - no figure


def _charts(report: FairnessReport, texts: Texts) -> list[Chart]:
    largest = sorted(
        report.customers, key=lambda customer_fairness: (-customer_fairness.documents, customer_fairness.customer)
    )[:MAX_CHART_CUSTOMERS]
    charts = []
    waited = [customer_fairness for customer_fairness in largest if customer_fairness.waits is not None]
    if waited:
        rows = [
            Row(
                customer_fairness.customer,
                [customer_fairness.waits.p50, customer_fairness.waits.p95, customer_fairness.waits.worst],
            )
            for customer_fairness in waited
            if customer_fairness.waits
        ]
        legend = [(0, texts.text("head_p50")), (1, texts.text("head_p95")), (2, texts.text("head_worst"))]
        longest = max(row.values[2] or 0 for row in rows)
        named = ("waits", texts.text("report_waits"), texts.text("chart_waits_about"))
        charts.append(
            bar_chart(named, legend, rows, log_duration_scale(longest), lambda value: format_duration(value, texts))
        )
    crowded = [
        customer_fairness
        for customer_fairness in largest
        if customer_fairness.received is not None and customer_fairness.due is not None
    ]
    if crowded:
        charts.append(_share_chart(crowded, texts))
    harmful = [customer for customer in report.customers[:MAX_CHART_CUSTOMERS] if customer.harm_done >= 1]
    if harmful:
        rows = [
            Row(customer_fairness.customer, [customer_fairness.harm_done, customer_fairness.harm_suffered])
            for customer_fairness in harmful
        ]
        legend = [(2, texts.text("head_harm_done")), (0, texts.text("head_harm_suffered"))]
        highest = max(value or 0 for row in rows for value in row.values)
        named = ("harm", texts.text("report_harm"), texts.text("chart_harm_about"))
        charts.append(
            bar_chart(named, legend, rows, log_duration_scale(highest), lambda value: format_duration(value, texts))
        )
    return charts


def _share_chart(customers: Sequence[CustomerFairness], texts: Texts) -> Chart:
    rows = [
        Row(customer.customer, [(customer.due or 0) * 100, (customer.received or 0) * 100]) for customer in customers
    ]
    legend = [(1, texts.text("head_due")), (2, texts.text("head_received"))]
    scale = linear_scale(max(value or 0 for row in rows for value in row.values))
    named = ("shares", texts.text("report_shares"), texts.text("chart_shares_about"))
    return bar_chart(named, legend, rows, scale, lambda value: f"{texts.number(round(value, 1))} %")


def _customer_table(report: FairnessReport, texts: Texts) -> str:
    rows: list[Sequence[Cell | str]] = [customer_row(customer, texts) for customer in report.customers[:MAX_TABLE_ROWS]]
    caption = texts.text("replay_shown", n=len(rows), total=len(report.customers))
    return table(caption, column_headings(texts), rows)


def column_headings(texts: Texts) -> list[str]:
    """Of a table of customers."""
    waits = ("head_p50", "head_p95", "head_worst")
    shares = ("head_received", "head_due", "head_harm_done", "head_harm_suffered")
    return [texts.text(key) for key in ("head_customer", "head_documents", *waits, "head_worked", *shares)]


def customer_row(customer: CustomerFairness, texts: Texts) -> list[str]:
    """A customer's line of that table."""
    waits = ["–"] * 3 if customer.waits is None else [format_duration(value, texts) for value in customer.waits[1:]]  # noqa: RUF001
    return [
        customer.customer,
        texts.number(customer.documents),
        *waits,
        format_duration(customer.worked, texts),
        format_share(customer.received, texts),
        format_share(customer.due, texts),
        format_duration(customer.harm_done, texts),
        format_duration(customer.harm_suffered, texts),
    ]
