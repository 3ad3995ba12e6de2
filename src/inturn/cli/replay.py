"""`inturn simulate --replay`: replay recorded history as it was and under other settings."""

import dataclasses
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from inturn.analysis.advice import Advice, advise
from inturn.analysis.charges import ChargeUnit
from inturn.analysis.compare import MIN_CHANGE_SECONDS, Comparison, CustomerChange, compare, rounded
from inturn.analysis.csv_history import read_csv, write_csv
from inturn.analysis.engine import Discipline
from inturn.analysis.goals import DEFAULT_GOAL, parse_goal
from inturn.analysis.history import WARMUP_DURATION, History
from inturn.analysis.history_reader import read_history
from inturn.analysis.replay import UNCHANGED_PLAN, Plan
from inturn.analysis.reports import Page, advice_page, comparison_page
from inturn.analysis.reports.advice import column_headings as advice_headings
from inturn.analysis.reports.advice import format_trial_value
from inturn.analysis.reports.advice import summary as advice_summary
from inturn.analysis.reports.advice import trial_rows as advice_rows
from inturn.analysis.reports.comparison import group_waits, series_legend, summary
from inturn.analysis.reports.scales import format_change, format_duration, format_jain
from inturn.cli.durations import parse_time
from inturn.cli.output import WIDER_TERMINAL, Column, print_table
from inturn.cli.policy import DURATION_SETTINGS, apply_changes, parse_thresholds
from inturn.cli.progress import progress_reporter
from inturn.cli.session import Session
from inturn.clock import SystemClock
from inturn.errors import InvalidInputError
from inturn.files import FOLDER_MODE, write_private
from inturn.policy import Charge, Order, Policy
from inturn.values import parse_duration

NUMERIC_SETTINGS: Final = {
    "overdue_every": int, "bytes_per_page": int, "per_document": float, "per_page": float, "max_share": float,
}  # fmt: skip
NAMED_SETTINGS: Final = {"order": Order, "charge": Charge}


class ReplayOptions(NamedTuple):
    """The options of a replay."""

    since: str | None
    until: str | None
    csv: Path | None
    export: Path | None
    scrub: bool
    policy: Sequence[str]
    order: str | None
    charge: str | None
    max_share: float | None
    check_each_step: bool | None
    slots: int | None
    weight: Sequence[str]
    cap: Sequence[str]
    html: Path | None
    svg: Path | None
    goal: str | None
    advise: bool

    @classmethod
    def empty(cls) -> "ReplayOptions":
        """Return the defaults."""
        return cls(None, None, None, None, False, (), None, None, None, None, None, (), (), None, None, None, False)


def replay(session: Session, options: ReplayOptions) -> None:
    """Read the history, replay it, and print the comparison or the advice."""
    goal = parse_goal(options.goal or DEFAULT_GOAL)
    with progress_reporter(session.texts) as step:
        history, current = _read_history(session, options, step(session.texts.text("replay_reading")))
        proposed = _proposed_plan(options, current)
        if options.scrub:
            if options.weight or options.cap:
                raise InvalidInputError("--scrub removes customers' names: leave out --weight and --cap")
            history = history.anonymized()
        if options.export is not None:
            _export(session, history, options.export)
            if proposed is None and not options.advise and options.html is None and options.svg is None:
                return
        baseline = _baseline_plan(history, options)
        if options.advise:
            base = proposed or UNCHANGED_PLAN
            base = dataclasses.replace(base, policy=base.policy or current)
            advice = advise(history, base, goal, step(session.texts.text("advice_trying")))
        else:
            other = None if proposed == baseline else proposed
            comparison = compare(history, baseline, other, step(session.texts.text("replay_playing")))
    if options.advise:
        _print_advice(session, options, advice)
    else:
        _print_comparison(session, options, comparison)


def _read_history(session: Session, options: ReplayOptions, progress: Any) -> tuple[History, Policy]:
    """Read the history, and the active policy."""
    now = SystemClock().now()
    since = 0 if options.since is None else parse_time("--from", options.since, now)
    until = None if options.until is None else parse_time("--to", options.until, now)
    if until is not None and until <= since:
        raise InvalidInputError("--to must be later than --from")
    lead = min(WARMUP_DURATION, since)
    if options.csv is not None:
        return _read_csv(session, options.csv, (since, until, lead), progress), Policy()
    queue = session.queue
    return read_history(queue, since, until=until, warmup=lead, progress=progress), queue.policy().policy


def _read_csv(session: Session, path: Path, span: tuple[int, int | None, int], progress: Any) -> History:
    def on_ignored(columns: Sequence[str]) -> None:
        session.warn(session.texts.text("csv_ignored", n=len(columns), columns=", ".join(columns), path=path))

    since, until, lead = span
    return read_csv(path, since, until=until, warmup=lead, progress=progress, on_ignored=on_ignored)


def _baseline_plan(history: History, options: ReplayOptions) -> Plan:
    """Return the plan of the history; if the number of workers is unknown, with --slots workers."""
    if any(wait is not None for wait in history.waits):
        return UNCHANGED_PLAN
    if options.slots is None:
        raise InvalidInputError(
            "this history does not have the times at which documents were started, so the number that ran at once is"
            " unknown: give it with --slots, or add a column `started`"
        )
    return Plan(workers=options.slots)


def _proposed_plan(options: ReplayOptions, current: Policy) -> Plan | None:
    """Build the plan of the options; None without any change."""
    policy = None
    given = (options.order, options.charge, options.max_share, options.check_each_step)
    if options.policy or any(value is not None for value in given):
        changes = dict(_parse_policy_option(text) for text in options.policy)
        if options.max_share is not None:
            changes["max_share"] = options.max_share
        if options.check_each_step is not None:
            changes["check_each_step"] = options.check_each_step
        policy = apply_changes(current, changes)
    if policy is not None and options.charge is not None:
        policy = ChargeUnit.parse("--charge with --replay", options.charge).apply_to(policy)
    if policy is not None and options.order is not None:
        policy = _parse_order(options.order).apply_to(policy)
    settings: dict[str, dict[str, Any]] = {}
    for option, values in (("weight", options.weight), ("cap", options.cap)):
        for text in values:
            customer, value = _parse_customer_option(option, text)
            settings.setdefault(customer, {})[option] = value
    plan = Plan(policy, options.slots, settings)
    return None if plan == UNCHANGED_PLAN else plan


def _parse_policy_option(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    name = name.strip().replace("-", "_")
    known = list(Policy().to_dict())
    if not separator or name not in known:
        raise InvalidInputError(f"--policy takes NAME=VALUE with a name of {', '.join(known)}; not {text!r}")
    if name in {*DURATION_SETTINGS, "share_idle_after"}:
        return name, parse_duration(f"--policy {name}", value)
    if name == "thresholds":
        return name, parse_thresholds(value)
    if name == "check_each_step":
        return name, _parse_flag(value)
    try:
        return name, NAMED_SETTINGS[name](value) if name in NAMED_SETTINGS else NUMERIC_SETTINGS[name](value)
    except ValueError:
        allowed = ", ".join(NAMED_SETTINGS[name]) if name in NAMED_SETTINGS else "a number"
        raise InvalidInputError(f"--policy {name} takes {allowed}, not {value!r}") from None


def _parse_flag(value: str) -> bool:
    if value not in {"true", "false"}:
        raise InvalidInputError(f"--policy check_each_step takes true or false, not {value!r}")
    return value == "true"


def _parse_customer_option(option: str, text: str) -> tuple[str, Any]:
    customer, _, value = text.rpartition("=")
    try:
        number = float(value) if option == "weight" else None if value == "none" else int(value)
    except ValueError:
        customer = ""
    if not customer:
        example = "acme=2.5" if option == "weight" else "acme=3 or acme=none"
        raise InvalidInputError(f"--{option} takes CUSTOMER=NUMBER such as {example}, not {text!r}")
    return customer, number


def _parse_order(text: str) -> Discipline:
    try:
        return Discipline(text.strip())
    except ValueError:
        raise InvalidInputError(f"--order takes one of {', '.join(Discipline)} with --replay, not {text!r}") from None


def _export(session: Session, history: History, path: Path) -> None:
    written = write_csv(history, path)
    if session.as_json:
        session.emit({"exported": str(path), "documents": written})
    else:
        session.print_text("replay_exported", n=written, path=path)


def _typed_options(options: ReplayOptions) -> list[str]:
    """Return the options as they were typed."""
    return [
        *options.policy,
        *([f"order={options.order}"] if options.order is not None else []),
        *([f"charge={options.charge}"] if options.charge is not None else []),
        *([f"max_share={options.max_share:g}"] if options.max_share is not None else []),
        *([f"check_each_step={str(options.check_each_step).lower()}"] if options.check_each_step is not None else []),
        *([f"slots={options.slots}"] if options.slots is not None else []),
        *(f"weight {item}" for item in options.weight),
        *(f"cap {item}" for item in options.cap),
    ]


def _print_comparison(session: Session, options: ReplayOptions, comparison: Comparison) -> None:
    if session.as_json:
        session.emit({"comparison": {"asked": _typed_options(options), **comparison.to_dict()}})
        for customer_change in comparison.everyone:
            session.emit(rounded(dataclasses.asdict(customer_change)))
    else:
        for line in summary(comparison, _typed_options(options), session.texts):
            session.write(line)
        _print_groups(session, comparison)
        _print_changes(session, comparison)
    if options.html is not None or options.svg is not None:
        write_page(
            session, comparison_page(comparison, _typed_options(options), session.texts), options.html, options.svg
        )


def _print_groups(session: Session, comparison: Comparison) -> None:
    texts = session.texts
    columns = [
        Column(texts.text("head_group")),
        Column(texts.text("label_customers"), number=True),
        Column(texts.text("head_documents"), number=True),
        Column(texts.text("head_played")),
        *(Column(texts.text(key), number=True) for key in ("head_mean", "head_p50", "head_p95", "head_worst")),
        *(
            Column(texts.text(key), number=True, from_width=WIDER_TERMINAL)
            for key in ("head_slowdown", "head_gap", "head_jain", "head_jain_documents")
        ),
    ]
    rows = []
    for group in comparison.groups:
        kinds = [None, group.current_fairness, group.proposed_fairness]
        for place, ((style, name), waits) in enumerate(
            zip(series_legend(comparison, texts), group_waits(comparison, group), strict=True)
        ):
            first = (group.group, texts.number(group.customers), texts.number(group.documents))
            figures = ["-"] * 4 if waits is None else [format_duration(wait, texts) for wait in waits]
            kind = kinds[style]
            fair = ["-"] * 4
            if kind is not None:
                both = (kind.jain, kind.jain_documents)
                indices = ["-" if index is None else format_jain(index, texts) for index in both]
                fair = [texts.number(round(kind.slowdown, 1)), format_duration(kind.longest_gap, texts), *indices]
            rows.append((*(first if place == 0 else ("", "", "")), name, *figures, *fair))
    print_table(session.console, columns, rows)


def _print_changes(session: Session, comparison: Comparison) -> None:
    """Print the customers whose waits change the most."""
    changes = sorted(
        (*comparison.less, *comparison.more),
        key=lambda customer_change: customer_change.proposed - customer_change.current,
    )
    if comparison.is_same or not changes:
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_customer"), folds=True),
        Column(texts.text("head_documents"), number=True),
        Column(texts.text("head_worked"), number=True),
        *(Column(texts.text(key), number=True) for key in ("series_was", "series_other", "head_change")),
        Column(texts.text("replay_changes")),
    ]
    session.console.print()
    print_table(session.console, columns, (_change_row(change, session) for change in changes))


def _change_row(customer_change: CustomerChange, session: Session) -> tuple[str, ...]:
    texts, change = session.texts, customer_change.proposed - customer_change.current
    means = (
        format_duration(customer_change.current, texts),
        format_duration(customer_change.proposed, texts),
        format_change(change, texts),
    )
    way = "waits_less" if change <= -MIN_CHANGE_SECONDS else "waits_more"
    work = format_duration(customer_change.worked, texts)
    return (customer_change.customer, texts.number(customer_change.documents), work, *means, texts.text(way))


def _print_advice(session: Session, options: ReplayOptions, advice: Advice) -> None:
    texts = session.texts
    if session.as_json:
        session.emit({"advice": advice.to_dict()})
    else:
        plain = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in advice_rows(advice, texts)]
        columns = [
            Column(heading, number=place in {2, 3, 4}, folds=place == 1)
            for place, heading in enumerate(advice_headings(texts))
        ]
        print_table(session.console, columns, plain)
        for line in [*advice_summary(advice, texts), *_suggested_commands(session, options, advice)]:
            session.write(line)
    if options.html is not None or options.svg is not None:
        write_page(session, advice_page(advice, texts), options.html, options.svg)


def _suggested_commands(session: Session, options: ReplayOptions, advice: Advice) -> Iterator[str]:
    """Suggest commands that try and apply the best setting."""
    best = advice.best
    if best is None:
        return
    source = ["--csv", str(options.csv)] if options.csv is not None else []
    policy = [] if best.setting is None else ["--policy", f"{best.setting}={format_trial_value(best)}"]
    command = ["inturn", "simulate", "--replay", *source, "--slots", str(best.workers), *policy]
    yield session.texts.text("advice_try", command=shlex.join(command))
    if best.setting is not None:
        option = f"--{best.setting.replace('_', '-')}={format_trial_value(best)}"
        yield session.texts.text("advice_apply", command=shlex.join(["inturn", "policy", "set", option]))


def write_page(session: Session, page: Page, html: Path | None, svg: Path | None) -> None:
    """Write a page, and each chart as a file."""
    if html is not None:
        _write_file(html, page.html)
        if not session.as_json:
            session.print_text("page_written", path=html)
    if svg is not None:
        svg.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        for chart in page.charts:
            _write_file(svg / f"{chart.name}.svg", chart.svg(standalone=True) + "\n")
        if not session.as_json:
            session.print_text("charts_written", n=len(page.charts), path=svg)


def _write_file(path: Path, text: str) -> None:
    with write_private(path) as file:
        file.write(text.encode())
