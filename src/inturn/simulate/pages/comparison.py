"""A replay as a page: who wins, who pays, and how near the replay comes to what happened."""

from collections.abc import Sequence
from typing import Final

from inturn.i18n import Texts
from inturn.model import SECOND
from inturn.simulate.compare import SMALLEST_CHANGE, Comparison, Contradiction, CustomerChange, GroupChange, Waits
from inturn.simulate.history import DAY
from inturn.simulate.pages.charts import Axes, Chart, Row, Series, bars, changes, lines
from inturn.simulate.pages.scales import even, length, lengths, signed
from inturn.simulate.pages.shell import SHOWN, Cell, Page, figure, page, section, table, words

TIMES: Final = 5
"""Times written along an axis."""


def comparison_page(found: Comparison, asked: Sequence[str], texts: Texts) -> Page:
    """The whole page; `asked` says what was changed, a setting each."""
    charts = _charts(found, texts)
    by_name = {each.name: figure(each) for each in charts}
    sections = [
        section(
            texts.text("replay_groups"),
            words(texts.text("replay_groups_about"), "soft"),
            by_name["groups"],
            _groups(found, texts),
            _fairness(found, texts),
        ),
        *([section(texts.text("replay_changes"), by_name["changes"])] if "changes" in by_name else []),
        section(texts.text("replay_waiting"), words(texts.text("replay_waiting_about"), "soft"), by_name["waiting"]),
        section(texts.text("replay_levels"), by_name["levels"]),
        section(texts.text("replay_everyone"), _everyone(found, texts)),
        section(texts.text("replay_how"), *(words(texts.text(key)) for key in _HOW)),
    ]
    title = texts.text("replay_title_same" if found.is_same else "replay_title")
    return page(texts, title, summary(found, asked, texts), sections, charts)


_HOW: Final = ("replay_how_played", "replay_how_slowdown", "replay_how_behind", "replay_how_jain", "replay_how_gap")


def summary(found: Comparison, asked: Sequence[str], texts: Texts) -> list[str]:
    """What was played and what came of it, in sentences."""
    since, until = texts.time(found.since), texts.time(found.until)
    said = [
        texts.text("replay_span", n=found.documents, customers=found.customers, since=since, until=until),
        texts.text("replay_workers", workers=found.workers),
    ]
    if found.is_cut:
        said.append(texts.text("replay_cut"))
    said += contradicted(found.contradictions, texts)
    if found.is_same:
        is_measured = any(group.measured is not None for group in found.groups)
        return [*said, texts.text("replay_none")] if is_measured else said
    less = sum(each.current - each.proposed >= SMALLEST_CHANGE for each in found.everyone)
    more = sum(each.proposed - each.current >= SMALLEST_CHANGE for each in found.everyone)
    return [
        *said,
        texts.text("replay_other", changes=", ".join(asked)),
        " ".join(
            [
                texts.text("replay_less", n=less),
                texts.text("replay_more", n=more),
                texts.text("replay_same", n=found.customers - less - more),
            ]
        ),
    ]


def contradicted(found: Sequence[Contradiction], texts: Texts) -> list[str]:
    """What a replay gets wrong of its own past, in sentences."""
    return [
        texts.text(
            "replay_contradicts",
            group=each.group,
            measured=length(each.measured, texts),
            replayed=length(each.replayed, texts),
        )
        for each in found
    ]


def series(found: Comparison, texts: Texts) -> list[tuple[int, str]]:
    """What is compared: a style and a name each."""
    names = [(0, texts.text("series_measured")), (1, texts.text("series_was"))]
    return names if found.is_same else [*names, (2, texts.text("series_other"))]


def group_waits(found: Comparison, group: GroupChange) -> list[Waits | None]:
    """What stands below each of the series."""
    return [group.measured, group.current] if found.is_same else [group.measured, group.current, group.proposed]


def _charts(found: Comparison, texts: Texts) -> list[Chart]:
    legend = series(found, texts)
    rows = [
        Row(
            texts.text("group_of", group=group.group, n=group.customers),
            [None if waits is None else waits.p95 for waits in group_waits(found, group)],
        )
        for group in found.groups
    ]
    longest = max((value for row in rows for value in row.values if value is not None), default=1.0)
    named = ("groups", texts.text("chart_groups"), texts.text("chart_groups_about"))
    charts = [bars(named, legend, rows, lengths(longest), lambda value: length(value, texts))]
    named_customers = sorted((*found.less, *found.more), key=lambda each: each.proposed - each.current)
    if named_customers:
        charts.append(_changes(named_customers, texts))
    return [*charts, _waiting(found, texts), _levels(found, texts)]


def _changes(customers: Sequence[CustomerChange], texts: Texts) -> Chart:
    rows = [(each.customer, each.proposed - each.current) for each in customers]
    scale = lengths(max(abs(value) for _, value in rows))
    named = ("changes", texts.text("chart_changes"), texts.text("chart_changes_about"))
    ends = (texts.text("waits_less"), texts.text("waits_more"))
    return changes(named, ends, rows, scale, lambda value: signed(value, texts))


def _waiting(found: Comparison, texts: Texts) -> Chart:
    moments = found.waiting
    begin, whole = moments[0].at, max(1, moments[-1].at - moments[0].at)
    highest = max(max(each.measured or 0, each.current, each.proposed) for each in moments)
    scale = even(highest)
    kinds: list[list[int | None]] = [
        [each.measured for each in moments],
        [each.current for each in moments],
        [each.proposed for each in moments],
    ]
    drawn = [
        Series(
            style,
            [
                ((each.at - begin) / whole, scale.place(value))
                for each, value in zip(moments, kinds[style], strict=True)
                if value is not None
            ],
        )
        for style, _ in series(found, texts)
    ]
    across = [(step / (TIMES - 1), _moment(begin + whole * step // (TIMES - 1), whole, texts)) for step in range(TIMES)]
    axes = Axes(across, [(scale.place(tick), texts.number(tick)) for tick in scale.ticks], texts.text("axis_time"))
    named = ("waiting", texts.text("replay_waiting"), texts.text("replay_waiting_about"))
    return lines(named, series(found, texts), [each for each in drawn if each.points], axes, dots=False)


def _moment(at: int, whole: int, texts: Texts) -> str:
    return texts.short_time(at, with_day=whole > DAY, with_seconds=whole < 10 * 60 * SECOND)


def _levels(found: Comparison, texts: Texts) -> Chart:
    legend = series(found, texts)[1:]
    kinds = [found.levels_current, found.levels_proposed][: len(legend)]
    levels = sorted({level for kind in kinds for level in kind})
    rows = [Row(texts.text("level_named", level=level), [kind.get(level, 0) for kind in kinds]) for level in levels]
    scale = even(max(value or 0 for row in rows for value in row.values))
    named = ("levels", texts.text("replay_levels"), texts.text("chart_levels_about"))
    return bars(named, legend, rows, scale, texts.number)


def _groups(found: Comparison, texts: Texts) -> str:
    names = [name for _, name in series(found, texts)]
    figures = [texts.text(key) for key in ("head_mean", "head_p50", "head_p95", "head_worst")]
    headings = [texts.text("head_group"), texts.text("label_customers"), texts.text("head_documents")]
    rows: list[Sequence[Cell | str]] = []
    for group in found.groups:
        for name, waits in zip(names, group_waits(found, group), strict=True):
            values = ["–"] * 4 if waits is None else [length(each, texts) for each in waits]  # noqa: RUF001 - no figure
            rows.append(
                [group.group, texts.number(group.customers), texts.number(group.documents), Cell(name, "word"), *values]
            )
    return table(texts.text("replay_groups"), [*headings, texts.text("head_played"), *figures], rows)


def _fairness(found: Comparison, texts: Texts) -> str:
    keys = ("head_slowdown", "head_behind", "head_gap", "head_jain")
    rows: list[Sequence[Cell | str]] = []
    for group in found.groups:
        kinds = [group.current_fairness, group.proposed_fairness]
        for (_, name), kind in zip(series(found, texts)[1:], kinds, strict=False):
            jain = "–" if kind.jain is None else texts.number(round(kind.jain, 3))  # noqa: RUF001 - no figure
            slowdown = texts.number(round(kind.slowdown, 1))
            waits = (length(kind.behind_ideal, texts), length(kind.longest_gap, texts))
            rows.append([group.group, Cell(name, "word"), slowdown, *waits, jain])
    headings = [texts.text("head_group"), texts.text("head_played"), *(texts.text(key) for key in keys)]
    return table(texts.text("replay_fairness"), headings, rows)


def _everyone(found: Comparison, texts: Texts) -> str:
    keys = ("head_customer", "head_group", "head_documents", "series_measured", "series_was")
    headings = [texts.text(key) for key in keys]
    if not found.is_same:
        headings += [texts.text(key) for key in ("series_other", "head_change", "head_p95_was", "head_p95_other")]
    rows = [_customer(each, texts, is_same=found.is_same) for each in found.everyone[:SHOWN]]
    caption = texts.text("replay_shown", n=len(rows), total=found.customers)
    return table(caption, headings, rows)


def _customer(each: CustomerChange, texts: Texts, *, is_same: bool) -> Sequence[Cell | str]:
    measured = "–" if each.measured is None else length(each.measured, texts)  # noqa: RUF001 - no figure
    kept: list[Cell | str] = [
        each.customer,
        each.group,
        texts.number(each.documents),
        measured,
        length(each.current, texts),
    ]
    if is_same:
        return kept
    change = each.proposed - each.current
    kind = "" if abs(change) < SMALLEST_CHANGE else "more" if change > 0 else "less"
    later = [length(each.current_p95, texts), length(each.proposed_p95, texts)]
    return [*kept, length(each.proposed, texts), Cell(signed(change, texts), kind), *later]
