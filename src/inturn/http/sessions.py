"""Sign and verify the page's session cookies, which any server of the queue can check without storing them.

A cookie holds the key's id, its expiry, and an HMAC keyed with the stored hash of the key. So it survives restarts, is
valid at every server, never contains the key, and ends with it. A reader of the store's hashes could forge a cookie,
but such a reader has the documents too.
"""

import hashlib
import hmac
import secrets
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from inturn.api_keys import ApiKey
from inturn.clock import Clock
from inturn.http.errors import RefusedError, UnauthorizedError
from inturn.http.key_cache import ApiKeyCache
from inturn.values import SECOND

COOKIE_NAME: Final = "inturn_session"
CSRF_HEADER: Final = "x-csrf-token"
SESSION_LIFETIME_SECONDS: Final = 7 * 86_400
RENEW_AFTER_SECONDS: Final = 86_400
SESSION_ENDED_MESSAGE: Final = "your session has ended; sign in again with your key"
FOREIGN_ORIGIN_MESSAGE: Final = "this request came from a page of another server; use the page of this server"


class Sessions:
    """Create and verify session cookies and CSRF tokens."""

    def __init__(self, key_cache: ApiKeyCache, clock: Clock) -> None:
        self._key_cache = key_cache
        self._clock = clock

    def create_cookie(self, key: ApiKey) -> str:
        """Create the value of a session cookie for a key."""
        payload = f"{key.id}.{self._clock.now() // SECOND + SESSION_LIFETIME_SECONDS}.{secrets.token_hex(8)}"
        return f"{payload}.{_sign(key, 'session', payload)}"

    def authenticate_cached(self, cookie: str) -> ApiKey | None:
        """Return the key of a cookie if the key is cached."""
        key = self._key_cache.get_cached(cookie.partition(".")[0])
        return None if key is None else self._verify(key, cookie)

    def authenticate(self, cookie: str) -> ApiKey:
        """Return the valid key of a cookie, read from the store."""
        return self._verify(self._key_cache.load(cookie.partition(".")[0]), cookie)

    def needs_renewal(self, cookie: str) -> bool:
        """Whether a valid cookie is more than a day old."""
        return int(cookie.split(".")[1]) - self._clock.now() // SECOND < SESSION_LIFETIME_SECONDS - RENEW_AFTER_SECONDS

    def csrf_token(self, key: ApiKey, cookie: str) -> str:
        """Derive the token that a page must send with this cookie; pages of other origins cannot read it."""
        return _sign(key, "csrf", cookie)

    def require_csrf_token(self, key: ApiKey, cookie: str, headers: Headers) -> None:
        """Refuse a change that a page of another origin sent with this cookie."""
        require_same_origin(headers)
        if not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), self.csrf_token(key, cookie).encode()):
            raise RefusedError("X-CSRF-Token is missing or wrong; reload the page")

    def _verify(self, key: ApiKey, cookie: str) -> ApiKey:
        payload, _, signature = cookie.rpartition(".")
        # The signature comes first: a forged payload is never parsed.
        if not hmac.compare_digest(signature.encode(), _sign(key, "session", payload).encode()):
            raise UnauthorizedError(SESSION_ENDED_MESSAGE)
        if int(payload.split(".")[1]) <= self._clock.now() // SECOND:
            raise UnauthorizedError(SESSION_ENDED_MESSAGE)
        return self._key_cache.record_use(key)


def require_same_origin(headers: Headers) -> None:
    """Refuse a request whose Origin is not this server; browsers send Origin with every change."""
    origin = urlsplit(headers.get("origin", ""))
    if not origin.netloc or origin.netloc.lower() != headers.get("host", "").lower():
        raise RefusedError(FOREIGN_ORIGIN_MESSAGE)


def is_https(headers: Headers, scheme: str) -> bool:
    """Whether the browser uses https, also to a proxy. Its Origin decides, as this affects its own cookie only."""
    return scheme == "https" or headers.get("origin", "").startswith("https:")


def _sign(key: ApiKey, purpose: str, payload: str) -> str:
    return hmac.new(bytes.fromhex(key.sha256), f"inturn {purpose} {payload}".encode(), hashlib.sha256).hexdigest()
