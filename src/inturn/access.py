"""Access keys: who may use a server, and for what. The secret is shown once and never kept, only its hash."""

import hashlib
import hmac
import secrets
from enum import StrEnum
from typing import Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.model import clean_text, clean_time

PREFIX: Final = "inturn"
ID_BYTES: Final = 6
SECRET_BYTES: Final = 32


class KeyScope(StrEnum):
    """What a key opens: one customer's own, everything, or everything without changing it."""

    CUSTOMER = "customer"
    OPERATOR = "operator"
    READ_ONLY = "read-only"


class AccessKey(NamedTuple):
    """A key as it is kept. With a customer it opens that customer's own alone."""

    id: str
    sha256: str
    scope: KeyScope
    name: str
    customer: str | None
    made_at: int
    expires_at: int | None = None
    """From this time on it opens nothing: it ran out, or was revoked."""
    used_at: int | None = None
    """Within a minute or so."""
    replaces: str | None = None
    """The key it was made to take the place of."""

    def is_live(self, now: int) -> bool:
        """Whether it opens anything now."""
        return self.expires_at is None or now < self.expires_at


def make_key(key: AccessKey) -> tuple[str, AccessKey]:
    """The text that opens, and the key as it is to be kept, with its new id and hash."""
    name = clean_text("a key's name", key.name)
    customer = None if key.customer is None else clean_text("a customer's name", key.customer)
    if key.scope is KeyScope.CUSTOMER and customer is None:
        raise InvalidInputError("a customer's key needs the customer: say whose it is")
    if key.scope is KeyScope.OPERATOR and customer is not None:
        raise InvalidInputError("an operator's key opens everything: leave the customer out")
    if key.expires_at is not None:
        clean_time("the time a key expires at", key.expires_at)
    id_ = secrets.token_hex(ID_BYTES)
    text = f"{PREFIX}_{id_}_{secrets.token_hex(SECRET_BYTES)}"
    return text, key._replace(id=id_, sha256=_hash(text), name=name, customer=customer)


def id_in(text: str) -> str | None:
    """The id in what somebody gave as a key; None if it cannot be one."""
    parts = text.split("_")
    lengths = [len(PREFIX), 2 * ID_BYTES, 2 * SECRET_BYTES]
    if not text.isascii() or [len(part) for part in parts] != lengths or parts[0] != PREFIX:
        return None
    return parts[1]


def opens(key: AccessKey, text: str) -> bool:
    """Whether this text is that key; takes the same time however much of it is right."""
    return hmac.compare_digest(_hash(text), key.sha256)


def _hash(text: str) -> str:
    # The secret is 256 random bits, which nobody guesses: a slow hash would only slow down the server.
    return hashlib.sha256(text.encode()).hexdigest()
