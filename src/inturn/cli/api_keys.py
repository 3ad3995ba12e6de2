"""`inturn keys`: the API keys of a queue's servers."""

import sys
from typing import Annotated, Final

import typer

from inturn import key_rotation
from inturn.api_keys import ApiKey, ApiKeyScope
from inturn.cli.durations import DAY, HOUR, convert_to_unit
from inturn.cli.output import WIDE_TERMINAL, Column, print_table
from inturn.cli.session import Session
from inturn.clock import SystemClock
from inturn.config import Range
from inturn.errors import InvalidInputError
from inturn.i18n import Texts

EXPIRY_DAYS_RANGE: Final = Range(0.001, 36_500)
OVERLAP_HOURS_RANGE: Final = Range(0, 24 * 365)
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `inturn keys list` shows it.")]


def create(
    session: Session,
    *,
    name: Annotated[str, typer.Option("--name", help="What the key is for; the audit log names it.")],
    customer: Annotated[str | None, typer.Option("--customer", help="Access to this customer only.")] = None,
    operator: Annotated[bool, typer.Option("--operator", help="Access to everything.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="No changes.")] = False,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="DAYS", help="Lifetime, such as 90 or 12h; else until revoked."),
    ] = None,
) -> None:
    """Create a key for a customer, an operator, or reading only.

    The key is shown once.
    """
    if operator and (read_only or customer is not None):
        raise InvalidInputError("--operator gives access to everything: leave out --customer and --read-only")
    if not (operator or read_only or customer is not None):
        raise InvalidInputError("choose what the key gives access to: --customer NAME, --operator or --read-only")
    scope = ApiKeyScope.OPERATOR if operator else ApiKeyScope.READ_ONLY if read_only else ApiKeyScope.CUSTOMER
    now = SystemClock().now()
    until = (
        None
        if expires is None
        else now + round(EXPIRY_DAYS_RANGE.parse("--expires", convert_to_unit("d", expires)) * DAY)
    )
    spec = ApiKey("", "", scope, name, customer, now, until)
    _print_new_key(session, *key_rotation.issue_api_key(session.queue.api_keys, spec, session.operator))


def list_(session: Session) -> None:
    """List all keys, oldest first, without their secrets."""
    api_keys, now, texts = session.queue.api_keys.all(), SystemClock().now(), session.texts
    if session.as_json:
        for api_key in api_keys:
            session.emit(_record(api_key))
        return
    columns = [
        Column(texts.text("head_key")),
        Column(texts.text("head_scope")),
        Column(texts.text("head_customer"), folds=True),
        Column(texts.text("head_name"), folds=True),
        Column(texts.text("head_made"), from_width=WIDE_TERMINAL),
        Column(texts.text("head_used")),
        Column(texts.text("head_expires")),
    ]
    print_table(session.console, columns, [_row(api_key, now, texts) for api_key in api_keys])


def revoke(session: Session, id: IdArgument) -> None:
    """Revoke a key. Servers notice within a second."""
    revoked = session.queue.api_keys.revoke(id, SystemClock().now(), session.operator)
    if session.as_json:
        session.emit(_record(revoked))
    else:
        session.print_text("key_revoked", id=revoked.id, name=revoked.name)


def rotate(
    session: Session,
    id: IdArgument,
    *,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="HOURS", help="How long the old key stays valid, such as 24 or 7d.")
    ] = "24",
) -> None:
    """Replace a key with a new one.

    The old key stays valid for --overlap hours. A key that it had replaced before is revoked.
    """
    overlap_length = round(OVERLAP_HOURS_RANGE.parse("--overlap", convert_to_unit("h", overlap)) * HOUR)
    _print_new_key(
        session,
        *key_rotation.rotate_api_key(session.queue.api_keys, id, overlap_length, session.operator, SystemClock().now()),
    )


def _print_new_key(session: Session, plaintext: str, api_key: ApiKey) -> None:
    if session.as_json:
        session.emit({**_record(api_key), "key": plaintext})
        return
    typer.echo(plaintext)
    if sys.stderr.isatty():
        session.warn(session.texts.text("key_shown_once"))


def _record(api_key: ApiKey) -> dict[str, object]:
    return {
        **{name: value for name, value in api_key._asdict().items() if name != "sha256"},
        "scope": str(api_key.scope),
    }


def _row(api_key: ApiKey, now: int, texts: Texts) -> tuple[str, ...]:
    expires = "-" if api_key.expires_at is None else texts.time(api_key.expires_at)
    return (
        api_key.id,
        str(api_key.scope),
        api_key.customer or "-",
        api_key.name,
        texts.time(api_key.made_at),
        "-" if api_key.used_at is None else texts.time(api_key.used_at),
        expires if api_key.is_live(now) else texts.text("key_ended", time=expires),
    )
