"""`inturn simulate --replay`: what really came in, played once more as it was and under other settings."""

import dataclasses
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from inturn.cli.output import Column, print_table
from inturn.cli.policy import changed, thresholds_of
from inturn.cli.session import Session
from inturn.cli.telling import telling
from inturn.cli.times import length as parsed_length
from inturn.cli.times import moment
from inturn.clock import SystemClock
from inturn.errors import InvalidInputError
from inturn.files import FOLDER_MODE, write_private
from inturn.policy import Order, Policy
from inturn.simulate.advice import Advice, advise
from inturn.simulate.compare import SMALLEST_CHANGE, Comparison, CustomerChange, compare, rounded
from inturn.simulate.engine import Play
from inturn.simulate.goals import USUAL, parse_goal
from inturn.simulate.history import LEAD, History, read_history
from inturn.simulate.pages import Page, advice_page, comparison_page
from inturn.simulate.pages.advice import headings as advice_headings
from inturn.simulate.pages.advice import rows as advice_rows
from inturn.simulate.pages.advice import shown as shown_trial
from inturn.simulate.pages.advice import told as advice_told
from inturn.simulate.pages.comparison import group_waits, series, summary
from inturn.simulate.pages.scales import length, signed
from inturn.simulate.replay import AS_IT_WAS, Plan
from inturn.simulate.tables import read_table, write_table

NUMBERS: Final = {"overdue_every": int, "bytes_per_page": int, "per_document": float, "per_page": float}


class Asked(NamedTuple):
    """What was typed."""

    since: str | None
    until: str | None
    csv: Path | None
    export: Path | None
    scrub: bool
    policy: Sequence[str]
    order: str | None
    slots: int | None
    weight: Sequence[str]
    cap: Sequence[str]
    html: Path | None
    svg: Path | None
    goal: str | None
    advises: bool

    @classmethod
    def nothing(cls) -> "Asked":
        """Without any option."""
        return cls(None, None, None, None, False, (), None, None, (), (), None, None, None, False)


def replay(session: Session, asked: Asked) -> None:
    """Read history, play it, and show what came of it."""
    goal = parse_goal(asked.goal or USUAL)
    with telling(session.texts) as step:
        history, current = _read(session, asked, step(session.texts.text("replay_reading")))
        proposed = _proposed(asked, current)
        if asked.scrub:
            if asked.weight or asked.cap:
                raise InvalidInputError("--scrub takes customers' names away: it goes with neither --weight nor --cap")
            history = history.scrubbed()
        if asked.export is not None:
            _exported(session, history, asked.export)
            if proposed is None and not asked.advises and asked.html is None and asked.svg is None:
                return
        baseline = _baseline(history, asked)
        if asked.advises:
            base = proposed or AS_IT_WAS
            base = dataclasses.replace(base, policy=base.policy or current)
            advice = advise(history, base, goal, step(session.texts.text("advice_trying")))
        else:
            other = None if proposed == baseline else proposed
            found = compare(history, baseline, other, step(session.texts.text("replay_playing")))
    if asked.advises:
        _advised(session, asked, advice)
    else:
        _compared(session, asked, found)


def _read(session: Session, asked: Asked, tell: Any) -> tuple[History, Policy]:
    """The history, and the policy that is in force."""
    now = SystemClock().now()
    since = 0 if asked.since is None else moment("--from", asked.since, now)
    until = None if asked.until is None else moment("--to", asked.until, now)
    if until is not None and until <= since:
        raise InvalidInputError("--to must be later than --from")
    lead = min(LEAD, since)
    if asked.csv is not None:
        return _table(session, asked.csv, (since, until, lead), tell), Policy()
    store = session.queue.store
    return read_history(store, since, until=until, lead=lead, progress=tell), store.policy().policy


def _table(session: Session, path: Path, span: tuple[int, int | None, int], tell: Any) -> History:
    def on_ignored(columns: Sequence[str]) -> None:
        session.warn(session.texts.text("csv_ignored", n=len(columns), columns=", ".join(columns), path=path))

    since, until, lead = span
    return read_table(path, since, until=until, lead=lead, progress=tell, on_ignored=on_ignored)


def _baseline(history: History, asked: Asked) -> Plan:
    """As it was. Where nobody knows how many workers there were, as many as are asked for."""
    if any(wait is not None for wait in history.waits):
        return AS_IT_WAS
    if asked.slots is None:
        raise InvalidInputError(
            "this history does not tell when documents were started, so nobody knows how many ran at a time:"
            " say it with --slots, or add a column `started`"
        )
    return Plan(workers=asked.slots)


def _proposed(asked: Asked, current: Policy) -> Plan | None:
    """What is asked for, or nothing."""
    policy = None
    if asked.policy or asked.order is not None:
        policy = changed(current, dict(_policy_change(each) for each in asked.policy))
    if policy is not None and asked.order is not None:
        policy = _play(asked.order).policy(policy)
    settings: dict[str, dict[str, Any]] = {}
    for option, given in (("weight", asked.weight), ("cap", asked.cap)):
        for each in given:
            customer, value = _customer_change(option, each)
            settings.setdefault(customer, {})[option] = value
    plan = Plan(policy, asked.slots, settings)
    return None if plan == AS_IT_WAS else plan


def _policy_change(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    name = name.strip().replace("-", "_")
    known = list(Policy().plain())
    if not found or name not in known:
        raise InvalidInputError(f"--policy takes NAME=VALUE with a name of {', '.join(known)}; not {text!r}")
    if name in {"reset_interval", "overdue_after"}:
        return name, parsed_length(f"--policy {name}", value)
    if name == "thresholds":
        return name, thresholds_of(value)
    try:
        return name, Order(value) if name == "order" else NUMBERS[name](value)
    except ValueError:
        wanted = ", ".join(Order) if name == "order" else "a number"
        raise InvalidInputError(f"--policy {name} takes {wanted}, not {value!r}") from None


def _customer_change(option: str, text: str) -> tuple[str, Any]:
    customer, _, value = text.rpartition("=")
    try:
        number = float(value) if option == "weight" else None if value == "none" else int(value)
    except ValueError:
        customer = ""
    if not customer:
        example = "acme=2.5" if option == "weight" else "acme=3 or acme=none"
        raise InvalidInputError(f"--{option} takes CUSTOMER=NUMBER such as {example}, not {text!r}")
    return customer, number


def _play(text: str) -> Play:
    try:
        return Play(text.strip())
    except ValueError:
        raise InvalidInputError(f"--order takes one of {', '.join(Play)} with --replay, not {text!r}") from None


def _exported(session: Session, history: History, path: Path) -> None:
    written = write_table(history, path)
    if session.as_json:
        session.emit({"exported": str(path), "documents": written})
    else:
        session.say("replay_exported", n=written, path=path)


def _said(asked: Asked) -> list[str]:
    """What was asked for, as it was typed."""
    return [
        *asked.policy,
        *([f"order={asked.order}"] if asked.order is not None else []),
        *([f"slots={asked.slots}"] if asked.slots is not None else []),
        *(f"weight {each}" for each in asked.weight),
        *(f"cap {each}" for each in asked.cap),
    ]


def _compared(session: Session, asked: Asked, found: Comparison) -> None:
    if session.as_json:
        session.emit({"comparison": {"asked": _said(asked), **found.plain()}})
        for each in found.everyone:
            session.emit(rounded(dataclasses.asdict(each)))
    else:
        for line in summary(found, _said(asked), session.texts):
            session.write(line)
        _print_groups(session, found)
        _print_changes(session, found)
    if asked.html is not None or asked.svg is not None:
        written(session, comparison_page(found, _said(asked), session.texts), asked.html, asked.svg)


def _print_groups(session: Session, found: Comparison) -> None:
    texts = session.texts
    columns = [
        Column(texts.text("head_group")),
        Column(texts.text("label_customers"), number=True),
        Column(texts.text("head_documents"), number=True),
        Column(texts.text("head_played")),
        *(Column(texts.text(key), number=True) for key in ("head_mean", "head_p50", "head_p95", "head_worst")),
        *(Column(texts.text(key), number=True, from_width=130) for key in ("head_slowdown", "head_gap", "head_jain")),
    ]
    rows = []
    for group in found.groups:
        kinds = [None, group.current_fairness, group.proposed_fairness]
        for place, ((style, name), waits) in enumerate(
            zip(series(found, texts), group_waits(found, group), strict=True)
        ):
            first = (group.group, texts.number(group.customers), texts.number(group.documents))
            figures = ["-"] * 4 if waits is None else [length(each, texts) for each in waits]
            kind = kinds[style]
            fair = ["-"] * 3
            if kind is not None:
                jain = "-" if kind.jain is None else texts.number(round(kind.jain, 3))
                fair = [texts.number(round(kind.slowdown, 1)), length(kind.longest_gap, texts), jain]
            rows.append((*(first if place == 0 else ("", "", "")), name, *figures, *fair))
    print_table(session.console, columns, rows)


def _print_changes(session: Session, found: Comparison) -> None:
    """Those who gain or pay the most."""
    changes = sorted((*found.less, *found.more), key=lambda each: each.proposed - each.current)
    if found.is_same or not changes:
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_customer"), folds=True),
        Column(texts.text("head_documents"), number=True),
        *(Column(texts.text(key), number=True) for key in ("series_was", "series_other", "head_change")),
        Column(texts.text("replay_changes")),
    ]
    session.console.print()
    print_table(session.console, columns, (_change(each, session) for each in changes))


def _change(each: CustomerChange, session: Session) -> tuple[str, ...]:
    texts, change = session.texts, each.proposed - each.current
    means = (length(each.current, texts), length(each.proposed, texts), signed(change, texts))
    way = "waits_less" if change <= -SMALLEST_CHANGE else "waits_more"
    return (each.customer, texts.number(each.documents), *means, texts.text(way))


def _advised(session: Session, asked: Asked, found: Advice) -> None:
    texts = session.texts
    if session.as_json:
        session.emit({"advice": found.plain()})
    else:
        plain = [[cell if isinstance(cell, str) else cell.text for cell in row] for row in advice_rows(found, texts)]
        columns = [
            Column(heading, number=place in {2, 3, 4}, folds=place == 1)
            for place, heading in enumerate(advice_headings(texts))
        ]
        print_table(session.console, columns, plain)
        for line in [*advice_told(found, texts), *_commands(session, asked, found)]:
            session.write(line)
    if asked.html is not None or asked.svg is not None:
        written(session, advice_page(found, texts), asked.html, asked.svg)


def _commands(session: Session, asked: Asked, found: Advice) -> Iterator[str]:
    """What to type next; nothing is done here."""
    best = found.best
    if best is None:
        return
    source = ["--csv", str(asked.csv)] if asked.csv is not None else []
    policy = [] if best.setting is None else ["--policy", f"{best.setting}={shown_trial(best)}"]
    command = ["inturn", "simulate", "--replay", *source, "--slots", str(best.workers), *policy]
    yield session.texts.text("advice_try", command=shlex.join(command))
    if best.setting is not None:
        option = f"--{best.setting.replace('_', '-')}={shown_trial(best)}"
        yield session.texts.text("advice_apply", command=shlex.join(["inturn", "policy", "set", option]))


def written(session: Session, page: Page, html: Path | None, svg: Path | None) -> None:
    """Write a page, and its charts as files of their own."""
    if html is not None:
        _write(html, page.html)
        if not session.as_json:
            session.say("page_written", path=html)
    if svg is not None:
        svg.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        for chart in page.charts:
            _write(svg / f"{chart.name}.svg", chart.svg(alone=True) + "\n")
        if not session.as_json:
            session.say("charts_written", n=len(page.charts), path=svg)


def _write(path: Path, text: str) -> None:
    with write_private(path) as file:
        file.write(text.encode())
