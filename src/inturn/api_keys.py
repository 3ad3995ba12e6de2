"""Generate and verify API keys. A key's secret is returned once; only its hash is stored."""

import hashlib
import hmac
import secrets
from enum import StrEnum
from typing import Final, NamedTuple

from inturn.errors import InvalidInputError
from inturn.values import clean_text, clean_time

API_KEY_PREFIX: Final = "inturn"
API_KEY_ID_BYTES: Final = 6
API_KEY_SECRET_BYTES: Final = 32


class ApiKeyScope(StrEnum):
    """The rights of a key: one customer's documents, everything, or read-only."""

    CUSTOMER = "customer"
    OPERATOR = "operator"
    READ_ONLY = "read-only"


class ApiKey(NamedTuple):
    """A stored key. With a customer it is restricted to that customer's documents."""

    id: str
    sha256: str
    scope: ApiKeyScope
    name: str
    customer: str | None
    made_at: int
    expires_at: int | None = None
    """The key is not valid from this time on: it expired or was revoked."""
    used_at: int | None = None
    """Accurate to about a minute."""
    replaces: str | None = None
    """The id of the key that this one replaces."""

    def is_live(self, now: int) -> bool:
        """Whether the key is valid now."""
        return self.expires_at is None or now < self.expires_at


def generate_api_key(spec: ApiKey) -> tuple[str, ApiKey]:
    """Generate a key; return its text with the secret, and the key to store with its new id and hash."""
    name = clean_text("a key's name", spec.name)
    customer = None if spec.customer is None else clean_text("a customer's name", spec.customer)
    if spec.scope is ApiKeyScope.CUSTOMER and customer is None:
        raise InvalidInputError("a customer's key needs a customer: name one")
    if spec.scope is ApiKeyScope.OPERATOR and customer is not None:
        raise InvalidInputError("an operator's key is for all customers: leave the customer out")
    if spec.expires_at is not None:
        clean_time("the time a key expires at", spec.expires_at)
    id_ = secrets.token_hex(API_KEY_ID_BYTES)
    text = f"{API_KEY_PREFIX}_{id_}_{secrets.token_hex(API_KEY_SECRET_BYTES)}"
    return text, spec._replace(id=id_, sha256=_hash_api_key(text), name=name, customer=customer)


def parse_api_key_id(text: str) -> str | None:
    """Return the id in a key's text; None if it cannot be a key."""
    parts = text.split("_")
    lengths = [len(API_KEY_PREFIX), 2 * API_KEY_ID_BYTES, 2 * API_KEY_SECRET_BYTES]
    if not text.isascii() or [len(part) for part in parts] != lengths or parts[0] != API_KEY_PREFIX:
        return None
    return parts[1]


def verify_api_key(key: ApiKey, text: str) -> bool:
    """Whether the text is this key, compared in constant time."""
    return hmac.compare_digest(_hash_api_key(text), key.sha256)


def _hash_api_key(text: str) -> str:
    # The secret has 256 random bits, so it needs no slow hash against guessing.
    return hashlib.sha256(text.encode()).hexdigest()
