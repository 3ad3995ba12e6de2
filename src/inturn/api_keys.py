"""Access keys: who may use a server, and for what. The secret is shown once and never kept, only its hash."""

import hashlib
import hmac
import secrets
from enum import StrEnum
from typing import Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.model import clean_text, clean_time

API_KEY_PREFIX: Final = "inturn"
API_KEY_ID_BYTES: Final = 6
API_KEY_SECRET_BYTES: Final = 32


class ApiKeyScope(StrEnum):
    """What a key opens: one customer's own, everything, or everything without changing it."""

    CUSTOMER = "customer"
    OPERATOR = "operator"
    READ_ONLY = "read-only"


class ApiKey(NamedTuple):
    """A key as it is kept. With a customer it opens that customer's own alone."""

    id: str
    sha256: str
    scope: ApiKeyScope
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


def generate_api_key(spec: ApiKey) -> tuple[str, ApiKey]:
    """The text that opens, and the key as it is to be kept, with its new id and hash."""
    name = clean_text("a key's name", spec.name)
    customer = None if spec.customer is None else clean_text("a customer's name", spec.customer)
    if spec.scope is ApiKeyScope.CUSTOMER and customer is None:
        raise InvalidInputError("a customer's key needs the customer: say whose it is")
    if spec.scope is ApiKeyScope.OPERATOR and customer is not None:
        raise InvalidInputError("an operator's key opens everything: leave the customer out")
    if spec.expires_at is not None:
        clean_time("the time a key expires at", spec.expires_at)
    id_ = secrets.token_hex(API_KEY_ID_BYTES)
    text = f"{API_KEY_PREFIX}_{id_}_{secrets.token_hex(API_KEY_SECRET_BYTES)}"
    return text, spec._replace(id=id_, sha256=_hash_api_key(text), name=name, customer=customer)


def parse_api_key_id(text: str) -> str | None:
    """The id in what somebody gave as a key; None if it cannot be one."""
    parts = text.split("_")
    lengths = [len(API_KEY_PREFIX), 2 * API_KEY_ID_BYTES, 2 * API_KEY_SECRET_BYTES]
    if not text.isascii() or [len(part) for part in parts] != lengths or parts[0] != API_KEY_PREFIX:
        return None
    return parts[1]


def verify_api_key(key: ApiKey, text: str) -> bool:
    """Whether this text is that key; takes the same time however much of it is right."""
    return hmac.compare_digest(_hash_api_key(text), key.sha256)


def _hash_api_key(text: str) -> str:
    # The secret is 256 random bits, which nobody guesses: a slow hash would only slow down the server.
    return hashlib.sha256(text.encode()).hexdigest()
