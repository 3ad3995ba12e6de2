"""Derive the settings of a server: address, authentication, limits."""

import ipaddress
from dataclasses import dataclass
from typing import Final

from inturn.config import Settings
from inturn.errors import InvalidInputError
from inturn.values import SECOND

MEGABYTE: Final = 1 << 20
GIGABYTE: Final = 1 << 30
AUTH_AUTO, AUTH_KEYS = "auto", "keys"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one upload, one API key, one customer and one server."""

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
    """Concurrent long polls of all callers."""
    listeners: int = 2_000
    """Concurrent event streams of all callers."""
    stall_seconds: float = 30
    """The longest pause within an upload."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The address of a server, whether it needs keys, and its limits."""

    host: str = "127.0.0.1"
    port: int = 8000
    needs_keys: bool = False
    limits: Limits = Limits()
    store: str | None = None
    """The URL of the store, for jobs in other processes."""


def server_settings(settings: Settings) -> ServerSettings:
    """Select the server's part of this machine's settings."""
    if settings.auth not in {AUTH_AUTO, AUTH_KEYS}:
        raise InvalidInputError(f"auth must be {AUTH_AUTO} or {AUTH_KEYS}, not {settings.auth!r}")
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
    """Whether only this machine can reach a server at this address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
