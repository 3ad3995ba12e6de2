"""What a server is told: where it listens, who may come in, and how much it takes."""

import ipaddress
from dataclasses import dataclass
from typing import Final

from inturn.config import Settings
from inturn.errors import InvalidInputError
from inturn.model import SECOND

MEGABYTE: Final = 1 << 20
GIGABYTE: Final = 1 << 30
AUTH_AUTO, AUTH_KEYS = "auto", "keys"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a server takes, of one upload, one key and one customer."""

    file: int = 50 * MEGABYTE
    body: int = 100 * MEGABYTE
    files: int = 10
    fields: int = 20
    per_second: float = 20
    burst: int = 60
    failed_logins: int = 10
    failed_login_window: int = 900 * SECOND
    waiting: int = 10_000
    stored: int = 5 * GIGABYTE
    long_polls: int = 2_000
    """Long polls at a time, of all callers."""
    listeners: int = 2_000
    """Of events, at a time."""
    stall_seconds: float = 30
    """Seconds that an upload may stand still."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where a server listens and what it asks of its callers."""

    host: str = "127.0.0.1"
    port: int = 8000
    needs_keys: bool = False
    limits: Limits = Limits()
    store: str | None = None
    """Where the queue is kept, for jobs in processes of their own."""


def server_settings(settings: Settings) -> ServerSettings:
    """The part of this machine's settings that concerns a server."""
    if settings.auth not in {AUTH_AUTO, AUTH_KEYS}:
        raise InvalidInputError(f"auth is {AUTH_AUTO} or {AUTH_KEYS}, not {settings.auth!r}")
    limits = Limits(
        file=round(settings.max_file * MEGABYTE),
        body=round(settings.max_body * MEGABYTE),
        files=settings.max_files,
        fields=settings.max_fields,
        per_second=settings.requests_per_second,
        burst=settings.burst,
        failed_logins=settings.failed_logins,
        waiting=settings.max_waiting,
        stored=round(settings.max_stored * GIGABYTE),
    )
    needs_keys = settings.auth == AUTH_KEYS or not is_loopback(settings.host)
    return ServerSettings(settings.host, settings.port, needs_keys, limits, settings.store)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
