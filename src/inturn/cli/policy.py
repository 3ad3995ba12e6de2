"""`inturn policy`: show, change and list the versions of the priority policy."""

from dataclasses import fields, replace
from typing import Annotated, Any

import typer

from inturn.cli.durations import parse_duration
from inturn.cli.json_output import policy_record
from inturn.cli.output import Column, print_details, print_table
from inturn.cli.session import Session
from inturn.errors import InvalidInputError
from inturn.i18n import Texts
from inturn.model import SECOND
from inturn.policy import Order, Policy

DURATION_SETTINGS = ("reset_interval", "overdue_after")


def show(session: Session) -> None:
    """Show the policy in force."""
    version = session.queue.policy()
    if session.as_json:
        session.emit(policy_record(version))
        return
    texts = session.texts
    print_details(session.console, [(texts.text("head_version"), texts.number(version.number))])
    columns = [Column(texts.text("head_setting")), Column(texts.text("head_value"), folds=True)]
    rows = [(name, _format_value(name, value, texts)) for name, value in version.policy.to_dict().items()]
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
        typer.Option(
            "--reset-interval", metavar="TIME", help="A counter starts at 0 again after this gap, such as 25m."
        ),
    ] = None,
    thresholds: Annotated[
        str | None,
        typer.Option("--thresholds", metavar="LIST", help='Counters at which the next level begins: "-2,-4".'),
    ] = None,
    order: Annotated[Order | None, typer.Option("--order", help="Order inside a level.")] = None,
    overdue_after: Annotated[
        str | None, typer.Option("--overdue-after", metavar="TIME", help="A longer wait is overdue, such as 15m.")
    ] = None,
    overdue_every: Annotated[
        int | None, typer.Option("--overdue-every", metavar="N", help="Every Nth start goes to an overdue level.")
    ] = None,
    per_document: Annotated[
        float | None, typer.Option("--per-document", metavar="COST", help="Part of a document's cost that is its own.")
    ] = None,
    per_page: Annotated[
        float | None, typer.Option("--per-page", metavar="COST", help="Cost of each page; 0: every document costs 1.")
    ] = None,
    bytes_per_page: Annotated[
        int | None, typer.Option("--bytes-per-page", metavar="N", help="A file counts at least one page for N bytes.")
    ] = None,
    expect: Annotated[
        int | None, typer.Option("--expect", metavar="VERSION", help="Refuse if another version is in force.")
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
        "per_document": per_document,
        "per_page": per_page,
        "bytes_per_page": bytes_per_page,
    }
    changes = {name: value for name, value in options.items() if value is not None}
    if not changes:
        raise InvalidInputError("nothing to change: give at least one setting, such as --reset-interval 25m")
    before = session.queue.policy()
    policy = apply_changes(before.policy, changes)
    # Without --expect, a concurrent change is refused too: the printed difference would be wrong.
    expected = before.number if expect is None else expect
    after = before
    if policy != before.policy or expected != before.number:
        after = session.queue.set_policy(policy, session.operator, expected=expected)
    _print_changes(session, (before.policy.to_dict(), after.policy.to_dict()), after.number)


def apply_changes(policy: Policy, changes: dict[str, Any]) -> Policy:
    """Return the policy with some of its settings changed, by name."""
    parts = {field.name: getattr(policy, field.name) for field in fields(policy)}
    for name, part in parts.items():
        own = {field.name for field in fields(part)} & changes.keys()
        parts[name] = replace(part, **{setting: changes[setting] for setting in own})
    return Policy(**parts)


def _print_changes(session: Session, difference: tuple[dict[str, Any], dict[str, Any]], version: int) -> None:
    before, after = difference
    changed = [name for name in before if before[name] != after[name]]
    if session.as_json:
        session.emit({"version": version, "changes": {name: [before[name], after[name]] for name in changed}})
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
    session.print_text("policy_in_force" if changed else "policy_unchanged", version=version)


def _format_value(name: str, value: Any, texts: Texts) -> str:
    if name in DURATION_SETTINGS:
        exact = f"{texts.number(value / SECOND)} s"
        return exact if value < 60 * SECOND else f"{exact} ({texts.duration(value)})"
    if isinstance(value, list):
        return ", ".join(texts.number(threshold) for threshold in value)
    return texts.number(value) if isinstance(value, (int, float)) else str(value)


def parse_thresholds(text: str) -> tuple[int, ...]:
    """Parse whole numbers with commas between them."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(f"--thresholds takes whole numbers such as -2,-4,-6, not {text!r}") from None
