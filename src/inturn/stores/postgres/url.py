"""Parse the address of a queue in PostgreSQL: a libpq URI with two options of Inturn, `schema` and `pool`."""

import re
import shlex
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from inturn.errors import InvalidInputError

DEFAULT_SCHEMA: Final = "inturn"
DEFAULT_POOL_SIZE: Final = 10
_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_TIMEOUT_OPTIONS: Final = {
    "connect_timeout": "10",
    "application_name": "inturn",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""Notice a vanished peer in under 30 seconds. Options of the address override these."""
_STRAY_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_SECRET_OPTIONS: Final = {"password", "sslpassword"}


class PostgresUrl(NamedTuple):
    """A parsed address: the connection string for libpq, and the options of Inturn."""

    conninfo: str
    schema: str = DEFAULT_SCHEMA
    pool_size: int = DEFAULT_POOL_SIZE
    display_url: str = ""
    """The address without user and password, for messages."""
    command_url: str = ""
    """The address with the user and all options but without a password, for command lines in messages."""

    @property
    def migrate_command(self) -> str:
        """The command that creates or upgrades this queue."""
        return f"inturn migrate --store {shlex.quote(self.command_url)}"


def parse_url(url: str) -> PostgresUrl:
    """Parse an address: `?schema=ocr` names the queue, `?pool=20` limits the connections of a process."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    _require_quoted(parts, given)
    ours = {name: value for name, value in given if name in {"schema", "pool"}}
    schema = ours.get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA_NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidInputError(
            f"a schema's name has 1 to 63 of a-z, 0-9 and _, begins with none of 0-9 and not with pg_: not {schema!r}",
        )
    pool = ours.get("pool", str(DEFAULT_POOL_SIZE))
    if not (pool.isascii() and pool.isdigit() and 1 <= int(pool) <= 1_000):
        raise InvalidInputError(f"pool must be a whole number from 1 to 1000, not {pool!r}")
    theirs = [(name, value) for name, value in given if name not in ours and name != "client_encoding"]
    known = {name for name, _ in theirs}
    theirs += [(name, value) for name, value in _TIMEOUT_OPTIONS.items() if name not in known]
    theirs.append(("client_encoding", "utf8"))  # what we send ourselves is UTF-8, whatever the database keeps
    conninfo = f"postgresql://{parts.netloc}{parts.path}?{urlencode(theirs)}"
    host = parts.netloc.rpartition("@")[2] or dict(given).get("host", "localhost")
    shown = f"postgresql://{host}{parts.path}?schema={schema}"
    return PostgresUrl(conninfo, schema, int(pool), shown, _without_password(parts, given))


def _require_quoted(parts: SplitResult, options: list[tuple[str, str]]) -> None:
    """Refuse an unquoted separator in a password: a part of the password would appear in messages."""
    is_cut = "@" in parts.path or parts.fragment or any("@" in name for name, _ in options)
    if parts.netloc.count("@") > 1 or is_cut or _STRAY_PERCENT.search(parts.netloc):
        raise InvalidInputError(
            "in an address of PostgreSQL the letters @ : / ? # and % of a user's name or password are written as"
            " %40 %3A %2F %3F %23 and %25; or keep the password out of it, in PGPASSWORD or ~/.pgpass"
        )


def _without_password(parts: SplitResult, options: list[tuple[str, str]]) -> str:
    user, at, hosts = parts.netloc.rpartition("@")
    query = urlencode([(name, value) for name, value in options if name not in _SECRET_OPTIONS], safe="/:,")
    return f"postgresql://{user.partition(':')[0]}{at}{hosts}{parts.path}" + (f"?{query}" if query else "")
