"""Advice as a page: the curve of workers against waits, and all that was tried."""

from collections.abc import Sequence
from typing import Any

from inturn.analysis.advice import Advice, Trial
from inturn.analysis.reports.charts import Axes, Chart, Series, line_chart
from inturn.analysis.reports.comparison import describe_contradictions
from inturn.analysis.reports.html_page import Cell, Page, figure, paragraph, render_page, section, table
from inturn.analysis.reports.scales import format_duration, log_duration_scale
from inturn.i18n import Texts
from inturn.values import SECOND

DURATION_SETTINGS = ("reset_interval", "overdue_after")


def advice_page(advice: Advice, texts: Texts) -> Page:
    """The whole page."""
    chart = _worker_curve(advice, texts)
    sections = [
        section(texts.text("advice_curve"), paragraph(texts.text("advice_curve_about"), "soft"), figure(chart)),
        section(
            texts.text("advice_trials"),
            table(texts.text("advice_trials"), column_headings(texts), trial_rows(advice, texts)),
        ),
    ]
    return render_page(texts, texts.text("advice_title"), summary(advice, texts), sections, [chart])


def summary(advice: Advice, texts: Texts) -> list[str]:
    """What was found, in sentences, the recommendation last."""
    since, until = texts.time(advice.since), texts.time(advice.until)
    said = [texts.text("advice_goal", goal=advice.goal.text)]
    if advice.is_sample:
        said.append(texts.text("advice_sample", n=advice.sampled, total=advice.documents, since=since, until=until))
    said += describe_contradictions(advice.contradictions, texts)
    key = "advice_now_met" if advice.now.is_met else "advice_now_missed"
    said.append(texts.text(key, workers=advice.now.workers, value=format_duration(advice.now.meant, texts)))
    if advice.smallest is None:
        said.append(texts.text("advice_none", workers=max(trial.workers for trial in advice.trials)))
    else:
        value = format_duration(advice.smallest.meant, texts)
        said.append(texts.text("advice_smallest", workers=advice.smallest.workers, value=value))
    best = advice.best
    if best is not None and best.setting is not None:
        setting = f"{best.setting} = {format_trial_value(best)}"
        value = format_duration(best.meant, texts)
        said.append(texts.text("advice_best", setting=setting, workers=best.workers, value=value))
    elif best is not None:
        said.append(texts.text("advice_keep"))
    return [*said, texts.text("advice_never")]


def column_headings(texts: Texts) -> list[str]:
    """Of a table of trials."""
    return [
        texts.text(key)
        for key in ("head_setting", "head_value", "head_workers", "head_meant", "head_others", "head_met")
    ]


def trial_rows(advice: Advice, texts: Texts) -> list[Sequence[Cell | str]]:
    """All trials: the policy in force first, by workers."""
    ordered = sorted(advice.trials, key=lambda trial: (trial.setting is not None, trial.setting or "", trial.workers))
    return [
        [
            trial.setting or texts.text("advice_in_force"),
            Cell(format_trial_value(trial) if trial.setting else "", "word"),
            texts.number(trial.workers),
            format_duration(trial.meant, texts),
            "–" if trial.others is None else format_duration(trial.others, texts),  # noqa: RUF001 - no figure
            Cell(texts.text("yes"), "less") if trial.is_met else Cell(texts.text("no"), "more"),
        ]
        for trial in ordered
    ]


def format_trial_value(trial: Trial) -> str:
    """A setting's value as the command line takes it."""
    return format_setting(trial.setting, trial.value)


def format_setting(setting: str | None, value: Any) -> str:
    """Durations in seconds, lists with commas."""
    if setting in DURATION_SETTINGS:
        return f"{value / SECOND:g}"
    return ",".join(str(item) for item in value) if isinstance(value, list) else str(value)


def _worker_curve(advice: Advice, texts: Texts) -> Chart:
    plain = sorted((trial for trial in advice.trials if trial.setting is None), key=lambda trial: trial.workers)
    values = [trial.meant for trial in plain] + [trial.others or 0 for trial in plain] + [advice.goal.seconds]
    scale, most = log_duration_scale(max(values)), plain[-1].workers
    drawn = [Series(1, [(trial.workers / most, scale.position(trial.meant)) for trial in plain])]
    legend = [(1, texts.text("head_meant"))]
    if all(trial.others is not None for trial in plain):
        drawn.append(Series(2, [(trial.workers / most, scale.position(trial.others or 0)) for trial in plain]))
        legend.append((2, texts.text("head_others")))
    across: list[tuple[float, str]] = []
    for trial in plain:
        place = trial.workers / most
        if not across or place - across[-1][0] >= 0.05:
            across.append((place, texts.number(trial.workers)))
    up = [(scale.position(tick), format_duration(tick, texts)) for tick in scale.ticks]
    goal = (scale.position(advice.goal.seconds), texts.text("advice_goal", goal=advice.goal.text))
    named = ("curve", texts.text("advice_curve"), texts.text("advice_curve_about"))
    return line_chart(named, legend, drawn, Axes(across, up, texts.text("head_workers"), goal), dots=True)
