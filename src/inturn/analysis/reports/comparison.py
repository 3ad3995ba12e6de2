"""A replay as a page: who wins, who pays, and how near the replay comes to what happened."""

from collections.abc import Sequence
from typing import Final

from inturn.analysis.compare import MIN_CHANGE_SECONDS, Comparison, Contradiction, CustomerChange, GroupChange, Waits
from inturn.analysis.history import DAY
from inturn.analysis.reports.charts import Axes, Chart, Row, Series, bar_chart, change_chart, line_chart
from inturn.analysis.reports.html_page import MAX_TABLE_ROWS, Cell, Page, figure, paragraph, render_page, section, table
from inturn.analysis.reports.scales import format_change, format_duration, format_jain, linear_scale, log_duration_scale
from inturn.i18n import Texts
from inturn.values import SECOND

TIME_AXIS_TICKS: Final = 5
"""Times written along an axis."""


def comparison_page(comparison: Comparison, changed_settings: Sequence[str], texts: Texts) -> Page:
    """The whole page; `asked` says what was changed, a setting each."""
    charts = _charts(comparison, texts)
    by_name = {chart.name: figure(chart) for chart in charts}
    sections = [
        section(
            texts.text("replay_groups"),
            paragraph(texts.text("replay_groups_about"), "soft"),
            by_name["groups"],
            _group_table(comparison, texts),
            _fairness_table(comparison, texts),
        ),
        *([section(texts.text("replay_changes"), by_name["changes"])] if "changes" in by_name else []),
        section(
            texts.text("replay_waiting"), paragraph(texts.text("replay_waiting_about"), "soft"), by_name["waiting"]
        ),
        section(texts.text("replay_levels"), by_name["levels"]),
        section(texts.text("replay_everyone"), _customer_table(comparison, texts)),
        section(texts.text("replay_how"), *(paragraph(texts.text(key)) for key in _METHOD_TEXTS)),
    ]
    title = texts.text("replay_title_same" if comparison.is_same else "replay_title")
    return render_page(texts, title, summary(comparison, changed_settings, texts), sections, charts)


_METHOD_TEXTS: Final = (
    "replay_how_played",
    "replay_how_slowdown",
    "replay_how_behind",
    "replay_how_jain",
    "replay_how_gap",
)


def summary(comparison: Comparison, changed_settings: Sequence[str], texts: Texts) -> list[str]:
    """What was played and what came of it, in sentences."""
    since, until = texts.time(comparison.since), texts.time(comparison.until)
    said = [
        texts.text("replay_span", n=comparison.documents, customers=comparison.customers, since=since, until=until),
        texts.text("replay_workers", workers=comparison.workers),
    ]
    if comparison.is_cut:
        said.append(texts.text("replay_cut"))
    said += describe_contradictions(comparison.contradictions, texts)
    if comparison.is_same:
        is_measured = any(group.measured is not None for group in comparison.groups)
        return [*said, texts.text("replay_none")] if is_measured else said
    less = sum(
        customer_change.current - customer_change.proposed >= MIN_CHANGE_SECONDS
        for customer_change in comparison.everyone
    )
    more = sum(
        customer_change.proposed - customer_change.current >= MIN_CHANGE_SECONDS
        for customer_change in comparison.everyone
    )
    return [
        *said,
        texts.text("replay_other", changes=", ".join(changed_settings)),
        " ".join(
            [
                texts.text("replay_less", n=less),
                texts.text("replay_more", n=more),
                texts.text("replay_same", n=comparison.customers - less - more),
            ]
        ),
        *_describe_shares(comparison, texts),
    ]


def _describe_shares(comparison: Comparison, texts: Texts) -> list[str]:
    """How equal the shares of worker time were, if two customers had a backlog at a time."""
    current, proposed = comparison.shares_current.seconds.run, comparison.shares_proposed.seconds.run
    if current is None or proposed is None:
        return []
    before, after = (texts.number(round(value, 3)) for value in (current, proposed))
    return [texts.text("replay_shares", current=before, proposed=after)]


def describe_contradictions(contradictions: Sequence[Contradiction], texts: Texts) -> list[str]:
    """What a replay gets wrong of its own past, in sentences."""
    return [
        texts.text(
            "replay_contradicts",
            group=contradiction.group,
            measured=format_duration(contradiction.measured, texts),
            replayed=format_duration(contradiction.replayed, texts),
        )
        for contradiction in contradictions
    ]


def series_legend(comparison: Comparison, texts: Texts) -> list[tuple[int, str]]:
    """What is compared: a style and a name each."""
    names = [(0, texts.text("series_measured")), (1, texts.text("series_was"))]
    return names if comparison.is_same else [*names, (2, texts.text("series_other"))]


def group_waits(comparison: Comparison, group: GroupChange) -> list[Waits | None]:
    """What stands below each of the series."""
    return [group.measured, group.current] if comparison.is_same else [group.measured, group.current, group.proposed]


def _charts(comparison: Comparison, texts: Texts) -> list[Chart]:
    legend = series_legend(comparison, texts)
    rows = [
        Row(
            texts.text("group_of", group=group.group, n=group.customers),
            [None if waits is None else waits.p95 for waits in group_waits(comparison, group)],
        )
        for group in comparison.groups
    ]
    longest = max((value for row in rows for value in row.values if value is not None), default=1.0)
    named = ("groups", texts.text("chart_groups"), texts.text("chart_groups_about"))
    charts = [bar_chart(named, legend, rows, log_duration_scale(longest), lambda value: format_duration(value, texts))]
    named_customers = sorted(
        (*comparison.less, *comparison.more),
        key=lambda customer_change: customer_change.proposed - customer_change.current,
    )
    if named_customers:
        charts.append(_change_chart(named_customers, texts))
    return [*charts, _queue_length_chart(comparison, texts), _level_chart(comparison, texts)]


def _change_chart(customers: Sequence[CustomerChange], texts: Texts) -> Chart:
    rows = [(customer.customer, customer.proposed - customer.current) for customer in customers]
    scale = log_duration_scale(max(abs(value) for _, value in rows))
    named = ("changes", texts.text("chart_changes"), texts.text("chart_changes_about"))
    ends = (texts.text("waits_less"), texts.text("waits_more"))
    return change_chart(named, ends, rows, scale, lambda value: format_change(value, texts))


def _queue_length_chart(comparison: Comparison, texts: Texts) -> Chart:
    moments = comparison.waiting
    begin, whole = moments[0].at, max(1, moments[-1].at - moments[0].at)
    highest = max(max(moment.measured or 0, moment.current, moment.proposed) for moment in moments)
    scale = linear_scale(highest)
    kinds: list[list[int | None]] = [
        [moment.measured for moment in moments],
        [moment.current for moment in moments],
        [moment.proposed for moment in moments],
    ]
    drawn = [
        Series(
            style,
            [
                ((queue_length_sample.at - begin) / whole, scale.position(value))
                for queue_length_sample, value in zip(moments, kinds[style], strict=True)
                if value is not None
            ],
        )
        for style, _ in series_legend(comparison, texts)
    ]
    across = [
        (step / (TIME_AXIS_TICKS - 1), _format_time_tick(begin + whole * step // (TIME_AXIS_TICKS - 1), whole, texts))
        for step in range(TIME_AXIS_TICKS)
    ]
    axes = Axes(across, [(scale.position(tick), texts.number(tick)) for tick in scale.ticks], texts.text("axis_time"))
    named = ("waiting", texts.text("replay_waiting"), texts.text("replay_waiting_about"))
    return line_chart(
        named, series_legend(comparison, texts), [series for series in drawn if series.points], axes, dots=False
    )


def _format_time_tick(at: int, span: int, texts: Texts) -> str:
    return texts.short_time(at, with_day=span > DAY, with_seconds=span < 10 * 60 * SECOND)


def _level_chart(comparison: Comparison, texts: Texts) -> Chart:
    legend = series_legend(comparison, texts)[1:]
    kinds = [comparison.levels_current, comparison.levels_proposed][: len(legend)]
    levels = sorted({level for kind in kinds for level in kind})
    rows = [Row(texts.text("level_named", level=level), [kind.get(level, 0) for kind in kinds]) for level in levels]
    scale = linear_scale(max(value or 0 for row in rows for value in row.values))
    named = ("levels", texts.text("replay_levels"), texts.text("chart_levels_about"))
    return bar_chart(named, legend, rows, scale, texts.number)


def _group_table(comparison: Comparison, texts: Texts) -> str:
    names = [name for _, name in series_legend(comparison, texts)]
    figures = [texts.text(key) for key in ("head_mean", "head_p50", "head_p95", "head_worst")]
    headings = [texts.text("head_group"), texts.text("label_customers"), texts.text("head_documents")]
    rows: list[Sequence[Cell | str]] = []
    for group in comparison.groups:
        for name, waits in zip(names, group_waits(comparison, group), strict=True):
            values = ["–"] * 4 if waits is None else [format_duration(wait, texts) for wait in waits]  # noqa: RUF001 - no figure
            rows.append(
                [group.group, texts.number(group.customers), texts.number(group.documents), Cell(name, "word"), *values]
            )
    return table(texts.text("replay_groups"), [*headings, texts.text("head_played"), *figures], rows)


def _fairness_table(comparison: Comparison, texts: Texts) -> str:
    keys = ("head_slowdown", "head_behind", "head_gap", "head_jain", "head_jain_documents")
    rows: list[Sequence[Cell | str]] = []
    for group in comparison.groups:
        kinds = [group.current_fairness, group.proposed_fairness]
        for (_, name), kind in zip(series_legend(comparison, texts)[1:], kinds, strict=False):
            indices = [format_jain(index, texts) for index in (kind.jain, kind.jain_documents)]
            slowdown = texts.number(round(kind.slowdown, 1))
            waits = (format_duration(kind.behind_ideal, texts), format_duration(kind.longest_gap, texts))
            rows.append([group.group, Cell(name, "word"), slowdown, *waits, *indices])
    headings = [texts.text("head_group"), texts.text("head_played"), *(texts.text(key) for key in keys)]
    return table(texts.text("replay_fairness"), headings, rows)


def _customer_table(comparison: Comparison, texts: Texts) -> str:
    keys = ("head_customer", "head_group", "head_documents", "series_measured", "series_was")
    headings = [texts.text(key) for key in keys]
    if not comparison.is_same:
        headings += [texts.text(key) for key in ("series_other", "head_change", "head_p95_was", "head_p95_other")]
    rows = [
        _customer_row(customer_change, texts, is_same=comparison.is_same)
        for customer_change in comparison.everyone[:MAX_TABLE_ROWS]
    ]
    caption = texts.text("replay_shown", n=len(rows), total=comparison.customers)
    return table(caption, headings, rows)


def _customer_row(customer: CustomerChange, texts: Texts, *, is_same: bool) -> Sequence[Cell | str]:
    measured = "–" if customer.measured is None else format_duration(customer.measured, texts)  # noqa: RUF001 - no figure
    stored: list[Cell | str] = [
        customer.customer,
        customer.group,
        texts.number(customer.documents),
        measured,
        format_duration(customer.current, texts),
    ]
    if is_same:
        return stored
    change = customer.proposed - customer.current
    kind = "" if abs(change) < MIN_CHANGE_SECONDS else "more" if change > 0 else "less"
    later = [format_duration(customer.current_p95, texts), format_duration(customer.proposed_p95, texts)]
    return [*stored, format_duration(customer.proposed, texts), Cell(format_change(change, texts), kind), *later]
