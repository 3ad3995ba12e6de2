"""Where a queue in PostgreSQL is: an address as libpq knows it, and what is ours in it."""

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from inturn.errors import InvalidInputError

DEFAULT_SCHEMA: Final = "inturn"
DEFAULT_POOL: Final = 10
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PATIENT: Final = {
    "connect_timeout": "10",
    "application_name": "inturn",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""A peer that vanished is noticed in under 30 seconds; whatever the address itself says comes first."""


class Address(NamedTuple):
    """What libpq is given, and the rest."""

    conninfo: str
    schema: str = DEFAULT_SCHEMA
    pool: int = DEFAULT_POOL
    shown: str = ""
    """For messages: without a password."""


def parse(url: str) -> Address:
    """Take an address apart: `?schema=ocr` names the queue, `?pool=20` how many connections a process may open."""
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in given if name in {"schema", "pool"}}
    schema = ours.get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidInputError(
            f"a schema's name has 1 to 63 of a-z, 0-9 and _, begins with none of 0-9 and not with pg_: not {schema!r}",
        )
    pool = ours.get("pool", str(DEFAULT_POOL))
    if not (pool.isascii() and pool.isdigit() and 1 <= int(pool) <= 1_000):
        raise InvalidInputError(f"pool must be a whole number from 1 to 1000, not {pool!r}")
    theirs = [(name, value) for name, value in given if name not in ours and name != "client_encoding"]
    known = {name for name, _ in theirs}
    theirs += [(name, value) for name, value in _PATIENT.items() if name not in known]
    theirs.append(("client_encoding", "utf8"))  # what we send ourselves is UTF-8, whatever the database keeps
    conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(theirs), ""))
    host = parts.netloc.rpartition("@")[2] or dict(given).get("host", "localhost")
    return Address(conninfo, schema, int(pool), f"postgresql://{host}{parts.path}?schema={schema}")
