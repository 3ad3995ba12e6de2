"""`inturn policy`: show, change and list the versions of the priority policy."""

import re
from dataclasses import fields, replace
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Any, Final

import typer

from inturn.cli.json_output import policy_record
from inturn.cli.output import Column, print_details, print_table
from inturn.cli.session import Session
from inturn.errors import InvalidInputError
from inturn.i18n import Texts
from inturn.policy import Charge, CostPolicy, Order, Policy
from inturn.store_types import PolicyVersion
from inturn.values import SECOND, parse_duration

DURATION_SETTINGS: Final = ("reset_interval", "overdue_after", "share_idle_after")
PAGES_AS_COST: Final = CostPolicy(0, 1)
DOCUMENTS_AS_COST: Final = CostPolicy(1, 0)
MAX_SHOWN_DENOMINATOR: Final = 64
PART_PATTERN: Final = re.compile(r"(?P<number>\d{1,9}(?:\.\d{1,17})?)(?:/(?P<of>\d{1,9})|(?P<percent>%))?", re.ASCII)


class SharedUnit(StrEnum):
    """What customers of one level get equal amounts of."""

    TIME = "time"
    PAGES = "pages"
    DOCUMENTS = "documents"


def show(session: Session) -> None:
    """Show the active policy."""
    version = session.queue.policy()
    if session.as_json:
        session.emit(policy_record(version))
        return
    texts = session.texts
    print_details(session.console, [(texts.text("head_version"), texts.number(version.number))])
    columns = [Column(texts.text("head_setting")), Column(texts.text("head_value"), folds=True)]
    rows = [(name, _format_value(name, value, texts)) for name, value in shown_settings(version.policy).items()]
    print_table(session.console, columns, rows)


def history(session: Session) -> None:
    """List all versions of the policy, newest first."""
    versions = session.queue.policies()
    if session.as_json:
        for version in versions:
            session.emit(policy_record(version))
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_version"), number=True),
        Column(texts.text("head_when")),
        Column(texts.text("head_operator"), folds=True),
        Column(texts.text("head_why"), folds=True),
    ]
    rows = [(texts.number(version.number), texts.time(version.at), *version.operator) for version in versions]
    print_table(session.console, columns, rows)


def set_(  # noqa: PLR0913 - one option for each setting
    session: Session,
    *,
    reset_interval: Annotated[
        str | None,
        typer.Option("--reset-interval", metavar="TIME", help="A counter is reset after a longer gap, such as 25m."),
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option("--thresholds", metavar="LIST", help='Counters at which the next level begins: "-2,-4".'),
    ] = None,
    order: Annotated[Order | None, typer.Option("--order", help="Order within a level.")] = None,
    overdue_after: Annotated[
        str | None, typer.Option("--overdue-after", metavar="TIME", help="A longer wait is overdue, such as 15m.")
    ] = None,
    overdue_every: Annotated[
        int | None, typer.Option("--overdue-every", metavar="N", help="Every Nth start goes to an overdue level.")
    ] = None,
    cost: Annotated[
        SharedUnit | None,
        typer.Option("--cost", help="What customers of one level share: processing time, pages or documents."),
    ] = None,
    max_share: Annotated[
        str | None,
        typer.Option("--max-share", metavar="PART", help="Slots of one customer while others wait: 7/8; 1: all."),
    ] = None,
    share_idle_after: Annotated[
        str | None,
        typer.Option("--share-idle-after", metavar="TIME", help="All slots to one customer after this long at least."),
    ] = None,
    per_document: Annotated[
        float | None, typer.Option("--per-document", metavar="COST", help="Part of a document's cost that is its own.")
    ] = None,
    per_page: Annotated[
        float | None, typer.Option("--per-page", metavar="COST", help="Cost of each page; 0: all documents cost 1.")
    ] = None,
    bytes_per_page: Annotated[
        int | None, typer.Option("--bytes-per-page", metavar="N", help="A file counts at least one page for N bytes.")
    ] = None,
    check_each_step: Annotated[
        bool | None,
        typer.Option("--check-each-step/--no-check-each-step", help="Check a document at each of its steps, or once."),
    ] = None,
    expect: Annotated[
        int | None, typer.Option("--expect", metavar="VERSION", help="Refuse if another version is active.")
    ] = None,
) -> None:
    """Change the policy and show the difference.

    New levels apply to new checks, a new order also to documents that wait already.
    """
    options = {
        "reset_interval": None if reset_interval is None else parse_duration("--reset-interval", reset_interval),
        "thresholds": None if thresholds is None else parse_thresholds(thresholds),
        "order": order,
        "overdue_after": None if overdue_after is None else parse_duration("--overdue-after", overdue_after),
        "overdue_every": overdue_every,
        "max_share": None if max_share is None else parse_part("--max-share", max_share),
        "share_idle_after": None
        if share_idle_after is None
        else parse_duration("--share-idle-after", share_idle_after),
        "per_document": per_document,
        "per_page": per_page,
        "bytes_per_page": bytes_per_page,
        "check_each_step": check_each_step,
    }
    changes = {name: value for name, value in options.items() if value is not None}
    if not changes and cost is None:
        raise InvalidInputError("nothing to change: give at least one setting, such as --reset-interval 25m")
    before = session.queue.policy()
    if cost is not None:
        changes = cost_changes(cost, before.policy) | changes
        require_matching_costs(cost, changes)
    policy = apply_changes(before.policy, changes)
    # Without --expect, a concurrent change is refused too: the printed difference would be wrong.
    expected = before.number if expect is None else expect
    after = before
    if policy != before.policy or expected != before.number:
        after = session.queue.set_policy(policy, session.operator, expected=expected)
    _print_changes(session, before.policy, after)


def apply_changes(policy: Policy, changes: dict[str, Any]) -> Policy:
    """Return the policy with some of its settings changed, by name."""
    parts: dict[str, Any] = {"priority": policy.priority, "turns": policy.turns, "costs": policy.costs}
    for name, part in parts.items():
        own = {field.name for field in fields(part)} & changes.keys()
        parts[name] = replace(part, **{setting: changes[setting] for setting in own})
    return Policy(**parts, check_each_step=changes.get("check_each_step", policy.check_each_step))


def cost_changes(unit: SharedUnit, policy: Policy) -> dict[str, Any]:
    """Return the settings that let customers share this unit. Costs by page are kept where there are any."""
    costs = DOCUMENTS_AS_COST if unit is SharedUnit.DOCUMENTS else policy.costs
    if unit is not SharedUnit.DOCUMENTS and costs.per_page == 0:
        costs = PAGES_AS_COST
    return {
        "charge": Charge.TIME if unit is SharedUnit.TIME else Charge.COST,
        "per_document": costs.per_document,
        "per_page": costs.per_page,
    }


def require_matching_costs(unit: SharedUnit, changes: dict[str, Any]) -> None:
    """Refuse costs that contradict the unit given with them."""
    if unit is SharedUnit.DOCUMENTS and (changes["per_document"], changes["per_page"]) != (1, 0):
        raise InvalidInputError("with --cost documents every document costs 1: leave out --per-document and --per-page")
    if unit is SharedUnit.PAGES and changes["per_page"] == 0:
        raise InvalidInputError("with --cost pages a page must cost more than 0: give another --per-page")


def shared_unit(policy: Policy) -> SharedUnit:
    """Return what customers of one level share by this policy."""
    if policy.turns.charge is Charge.TIME:
        return SharedUnit.TIME
    return SharedUnit.PAGES if policy.costs.per_page else SharedUnit.DOCUMENTS


def shown_settings(policy: Policy) -> dict[str, Any]:
    """Return the settings by the names that the options have: `cost` for `charge`."""
    settings = policy.to_dict()
    return {
        "cost" if name == "charge" else name: str(shared_unit(policy)) if name == "charge" else value
        for name, value in settings.items()
    }


def _print_changes(session: Session, old: Policy, version: PolicyVersion) -> None:
    to_settings = Policy.to_dict if session.as_json else shown_settings
    before, after = to_settings(old), to_settings(version.policy)
    changed = [name for name in before if before[name] != after[name]]
    if session.as_json:
        session.emit({"version": version.number, "changes": {name: [before[name], after[name]] for name in changed}})
        return
    texts = session.texts
    if changed:
        columns = [
            Column(texts.text("head_setting")),
            Column(texts.text("head_before"), folds=True),
            Column(texts.text("head_after"), folds=True),
        ]
        rows = [
            (name, _format_value(name, before[name], texts), _format_value(name, after[name], texts))
            for name in changed
        ]
        print_table(session.console, columns, rows)
    session.print_text("policy_in_force" if changed else "policy_unchanged", version=version.number)


def _format_value(name: str, value: Any, texts: Texts) -> str:
    if name in DURATION_SETTINGS:
        exact = f"{texts.number(value / SECOND)} s"
        return exact if value < 60 * SECOND else f"{exact} ({texts.duration(value)})"
    if name == "max_share":
        return format_part(value, texts)
    if isinstance(value, bool):
        return texts.text("yes" if value else "no")
    if isinstance(value, list):
        return ", ".join(texts.number(threshold) for threshold in value)
    return texts.number(value) if isinstance(value, (int, float)) else str(value)


def parse_thresholds(text: str) -> tuple[int, ...]:
    """Parse whole numbers with commas between them."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(f"--thresholds takes whole numbers such as -2,-4,-6, not {text!r}") from None


def parse_part(option: str, text: str) -> float:
    """Parse a part of a whole: a fraction such as 7/8, a number such as 0.875, or a percentage such as 87.5%."""
    match = PART_PATTERN.fullmatch(text.strip())
    whole = 0.0 if match is None else 100.0 if match["percent"] else float(match["of"] or 1)
    if match is None or whole == 0:
        raise InvalidInputError(f"{option} takes a part such as 7/8, 0.875 or 87.5%, not {text!r}")
    return float(match["number"]) / whole


def format_part(part: float, texts: Texts) -> str:
    """Format a part of a whole, with the fraction if that is short: 0.875 (7/8)."""
    fraction = Fraction(part).limit_denominator(MAX_SHOWN_DENOMINATOR)
    number = texts.number(part)
    return number if part == 1 or float(fraction) != part else f"{number} ({fraction})"
