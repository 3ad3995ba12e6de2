"""Advice as a page: the curve of workers against waits, and all that was tried."""

from collections.abc import Sequence
from typing import Any

from inturn.i18n import Texts
from inturn.model import SECOND
from inturn.simulate.advice import Advice, Trial
from inturn.simulate.pages.charts import Axes, Chart, Series, lines
from inturn.simulate.pages.comparison import contradicted
from inturn.simulate.pages.scales import length, lengths
from inturn.simulate.pages.shell import Cell, Page, figure, page, section, table, words

DURATIONS = ("reset_interval", "overdue_after")


def advice_page(found: Advice, texts: Texts) -> Page:
    """The whole page."""
    chart = _curve(found, texts)
    sections = [
        section(texts.text("advice_curve"), words(texts.text("advice_curve_about"), "soft"), figure(chart)),
        section(texts.text("advice_trials"), table(texts.text("advice_trials"), headings(texts), rows(found, texts))),
    ]
    return page(texts, texts.text("advice_title"), told(found, texts), sections, [chart])


def told(found: Advice, texts: Texts) -> list[str]:
    """What was found, in sentences, the recommendation last."""
    since, until = texts.time(found.since), texts.time(found.until)
    said = [texts.text("advice_goal", goal=found.goal.text)]
    if found.is_sample:
        said.append(texts.text("advice_sample", n=found.sampled, total=found.documents, since=since, until=until))
    said += contradicted(found.contradictions, texts)
    key = "advice_now_met" if found.now.is_met else "advice_now_missed"
    said.append(texts.text(key, workers=found.now.workers, value=length(found.now.meant, texts)))
    if found.smallest is None:
        said.append(texts.text("advice_none", workers=max(each.workers for each in found.trials)))
    else:
        value = length(found.smallest.meant, texts)
        said.append(texts.text("advice_smallest", workers=found.smallest.workers, value=value))
    best = found.best
    if best is not None and best.setting is not None:
        setting = f"{best.setting} = {shown(best)}"
        value = length(best.meant, texts)
        said.append(texts.text("advice_best", setting=setting, workers=best.workers, value=value))
    elif best is not None:
        said.append(texts.text("advice_keep"))
    return [*said, texts.text("advice_never")]


def headings(texts: Texts) -> list[str]:
    """Of a table of trials."""
    return [
        texts.text(key)
        for key in ("head_setting", "head_value", "head_workers", "head_meant", "head_others", "head_met")
    ]


def rows(found: Advice, texts: Texts) -> list[Sequence[Cell | str]]:
    """All trials: the policy in force first, by workers."""
    ordered = sorted(found.trials, key=lambda each: (each.setting is not None, each.setting or "", each.workers))
    return [
        [
            each.setting or texts.text("advice_in_force"),
            Cell(shown(each) if each.setting else "", "word"),
            texts.number(each.workers),
            length(each.meant, texts),
            "–" if each.others is None else length(each.others, texts),  # noqa: RUF001 - no figure
            Cell(texts.text("yes"), "less") if each.is_met else Cell(texts.text("no"), "more"),
        ]
        for each in ordered
    ]


def shown(trial: Trial) -> str:
    """A setting's value as the command line takes it."""
    return written(trial.setting, trial.value)


def written(setting: str | None, value: Any) -> str:
    """Durations in seconds, lists with commas."""
    if setting in DURATIONS:
        return f"{value / SECOND:g}"
    return ",".join(str(each) for each in value) if isinstance(value, list) else str(value)


def _curve(found: Advice, texts: Texts) -> Chart:
    plain = sorted((each for each in found.trials if each.setting is None), key=lambda each: each.workers)
    values = [each.meant for each in plain] + [each.others or 0 for each in plain] + [found.goal.seconds]
    scale, most = lengths(max(values)), plain[-1].workers
    drawn = [Series(1, [(each.workers / most, scale.place(each.meant)) for each in plain])]
    legend = [(1, texts.text("head_meant"))]
    if all(each.others is not None for each in plain):
        drawn.append(Series(2, [(each.workers / most, scale.place(each.others or 0)) for each in plain]))
        legend.append((2, texts.text("head_others")))
    across: list[tuple[float, str]] = []
    for each in plain:
        place = each.workers / most
        if not across or place - across[-1][0] >= 0.05:
            across.append((place, texts.number(each.workers)))
    up = [(scale.place(tick), length(tick, texts)) for tick in scale.ticks]
    goal = (scale.place(found.goal.seconds), texts.text("advice_goal", goal=found.goal.text))
    named = ("curve", texts.text("advice_curve"), texts.text("advice_curve_about"))
    return lines(named, legend, drawn, Axes(across, up, texts.text("head_workers"), goal), dots=True)
