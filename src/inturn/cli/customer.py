"""`inturn customer`: show and change one customer, and the older commands for a single setting."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from inturn.cli.durations import DAY, convert_to_unit
from inturn.cli.json_output import customer_record, share_record
from inturn.cli.output import Column, print_details, print_table
from inturn.cli.session import Session
from inturn.config import Range
from inturn.errors import InvalidInputError, NotFoundError
from inturn.i18n import Texts
from inturn.insights.explain import describe_share
from inturn.model import CustomerSettings, RateLimit, settings_to_dict
from inturn.values import SECOND, parse_duration

RETENTION_DAYS_RANGE: Final = Range(0, 36_500)
MAX_RUNNING_DIGITS: Final = 9

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The customer's name.")]


def show(session: Session, name: NameArgument) -> None:
    """Show a customer's counter, share of worker time, waiting documents and settings."""
    customer, texts = session.queue.customer(name), session.texts
    share = session.insights.shares().of(customer.name)
    if session.as_json:
        session.emit({**customer_record(customer), "share": share_record(share)})
        return
    details = [
        (texts.text("head_customer"), customer.name),
        (texts.text("head_counter"), format_optional(customer.count, texts)),
        (texts.text("head_waiting"), texts.number(customer.waiting)),
        (texts.text("head_running"), texts.number(customer.running)),
        (texts.text("label_share"), describe_share(share, texts)),
    ]
    details += [
        (texts.text(label), format_value(getattr(customer.settings, setting), texts))
        for setting, (label, format_value) in SETTINGS.items()
    ]
    print_details(session.console, details)
    if customer.lanes:
        columns = [
            Column(texts.text("head_level"), number=True),
            Column(texts.text("head_waiting"), number=True),
            Column(texts.text("label_line")),
        ]
        closed = texts.text("lane_closed_share" if customer.at_slot_limit else "lane_closed")
        rows = [
            (texts.number(lane.level), texts.number(lane.waiting), texts.text("lane_open") if lane.is_open else closed)
            for lane in customer.lanes
        ]
        print_table(session.console, columns, rows)


def set_(  # noqa: PLR0913 - one option for each setting
    session: Session,
    name: NameArgument,
    *,
    weight: Annotated[
        float | None, typer.Option("--weight", metavar="N", help="Share within its level, 0.001 to 1000: 2 is twice 1.")
    ] = None,
    max_running: Annotated[
        str | None,
        typer.Option("--max-running", metavar="N|none", help="Concurrency limit: documents that may run at a time."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", metavar="N/TIME|none", help="Rate limit: documents that may start in a time, such as 100/1m."
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option("--retention", metavar="DAYS|default", help="How long finished documents are kept: 90, or 12h."),
    ] = None,
    paused: Annotated[
        bool | None, typer.Option("--paused/--no-paused", help="Start none of its documents; running ones finish.")
    ] = None,
) -> None:
    """Change a customer's settings, all in one transaction."""
    changes: dict[str, Any] = {}
    if weight is not None:
        changes["weight"] = weight
    if max_running is not None:
        changes["cap"] = parse_max_running(max_running)
    if rate is not None:
        changes["rate"] = parse_rate(rate)
    if retention is not None:
        changes["keep"] = parse_retention(retention)
    if paused is not None:
        changes["paused"] = paused
    if not changes:
        raise InvalidInputError("nothing to change: give at least one setting, such as --weight 2")
    before, after = change_settings(session, name, changes)
    if session.as_json:
        difference = {setting: [before[setting], after[setting]] for setting in changes}
        session.emit({"customer": name, "changes": difference})


def weight(
    session: Session, customer: NameArgument, weight: Annotated[float, typer.Argument(help="0.001 to 1000.")]
) -> None:
    """Set a customer's share inside its level: `inturn customer set NAME --weight N`."""
    set_one(session, customer, "weight", weight)


def cap(session: Session, customer: NameArgument, cap: Annotated[str, typer.Argument(metavar="N|none")]) -> None:
    """Limit a customer's running documents: `inturn customer set NAME --max-running N`."""
    set_one(session, customer, "cap", parse_max_running(cap))


def rate(session: Session, customer: NameArgument, rate: Annotated[str, typer.Argument(metavar="N/TIME|none")]) -> None:
    """Limit a customer's starts: `inturn customer set NAME --rate N/TIME`."""
    set_one(session, customer, "rate", parse_rate(rate))


def keep(
    session: Session, customer: NameArgument, days: Annotated[str, typer.Argument(metavar="DAYS|default")]
) -> None:
    """Set how long finished documents are kept: `inturn customer set NAME --retention DAYS`."""
    set_one(session, customer, "keep", parse_retention(days))


def set_one(session: Session, customer: str, setting: str, value: Any) -> None:
    """Change one setting; its JSON has one value before and one after."""
    before, after = change_settings(session, customer, {setting: value})
    if session.as_json:
        session.emit({"customer": customer, "setting": setting, "before": before[setting], "after": after[setting]})


def change_settings(
    session: Session, customer: str, changes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Change settings in one transaction and print them; returns all settings before and after, as JSON has them."""
    try:
        before, is_known = session.queue.customer(customer).settings, True
    except NotFoundError:
        before, is_known = CustomerSettings(), False
    after = session.queue.change_customer(customer, session.operator, **changes)
    if not session.as_json:
        texts = session.texts
        for setting in changes:
            label, format_value = SETTINGS[setting]
            old, new = (format_value(getattr(settings, setting), texts) for settings in (before, after))
            session.write(f"{customer}: {texts.text(label)} {old} → {new}")
        if not is_known:  # a mistyped name would go unnoticed otherwise
            session.print_text("customer_unseen", customer=customer)
    return settings_to_dict(before._asdict()), settings_to_dict(after._asdict())


def parse_max_running(text: str) -> int | None:
    """Parse a whole number, or `none`."""
    if text == "none":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_RUNNING_DIGITS):
        raise InvalidInputError(
            f"the most documents that run at once are a whole number such as 5, or none, not {text!r}"
        )
    return int(text)


def parse_rate(text: str) -> RateLimit | None:
    """Parse documents, a slash and a length of time; or `none`."""
    if text == "none":
        return None
    documents, _, span = text.partition("/")
    try:
        return RateLimit(int(documents), parse_duration("a rate", span))
    except (ValueError, InvalidInputError):
        raise InvalidInputError(f"a rate is documents/time such as 100/60 or 100/1m, or none, not {text!r}") from None


def parse_retention(text: str) -> int | None:
    """Parse a number of days or a length of time, in microseconds; None for `default`."""
    if text == "default":
        return None
    days = RETENTION_DAYS_RANGE.parse("the days to keep documents for", convert_to_unit("d", text))
    return round(days * DAY)


def format_rate(rate: RateLimit | None, texts: Texts) -> str:
    """Format a rate limit as `--rate` takes it."""
    return "-" if rate is None else f"{texts.number(rate.documents)}/{texts.number(rate.per / SECOND)} s"


def format_optional(number: float | None, texts: Texts) -> str:
    """Format a number, or a dash for none."""
    return "-" if number is None else texts.number(number)


def _format_retention(retention: int | None, texts: Texts) -> str:
    return "-" if retention is None else texts.text("days", n=round(retention / DAY, 3))


def _format_flag(value: bool, texts: Texts) -> str:  # noqa: FBT001 - one of several formatters
    return texts.text("yes" if value else "no")


SETTINGS: Final[Mapping[str, tuple[str, Callable[[Any, Texts], str]]]] = {
    "weight": ("head_weight", format_optional),
    "cap": ("head_cap", format_optional),
    "rate": ("head_rate", format_rate),
    "keep": ("head_keep", _format_retention),
    "paused": ("head_paused", _format_flag),
}
"""The label and the format of each setting."""
