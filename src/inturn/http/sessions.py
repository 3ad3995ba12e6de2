"""Sessions of the page: a cookie made from a key, which any server of the queue can check without keeping anything.

A cookie holds the key's id, until when it is good, and a mark that only who knows the stored hash can make. So it
outlives restarts, holds at every server, never contains the key, and ends with it. Whoever can read the hashes in the
store could make one: but such a person reads the documents too.
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
from inturn.model import SECOND

COOKIE_NAME: Final = "inturn_session"
CSRF_HEADER: Final = "x-csrf-token"
SESSION_LIFETIME_SECONDS: Final = 7 * 86_400
RENEW_AFTER_SECONDS: Final = 86_400
SESSION_ENDED_MESSAGE: Final = "you are not signed in any more; sign in again with your key"
FOREIGN_ORIGIN_MESSAGE: Final = "this came from a page of somebody else's; use the page of this server"


class Sessions:
    """Makes and reads cookies."""

    def __init__(self, key_cache: ApiKeyCache, clock: Clock) -> None:
        self._key_cache = key_cache
        self._clock = clock

    def create_cookie(self, key: ApiKey) -> str:
        """A cookie's value for whoever has shown this key."""
        said = f"{key.id}.{self._clock.now() // SECOND + SESSION_LIFETIME_SECONDS}.{secrets.token_hex(8)}"
        return f"{said}.{_sign(key, 'session', said)}"

    def authenticate_cached(self, cookie: str) -> ApiKey | None:
        """The key of a cookie, if that can be told without asking the store."""
        key = self._key_cache.get_cached(cookie.partition(".")[0])
        return None if key is None else self._verify(key, cookie)

    def authenticate(self, cookie: str) -> ApiKey:
        """The live key that a cookie was made from."""
        return self._verify(self._key_cache.load(cookie.partition(".")[0]), cookie)

    def needs_renewal(self, cookie: str) -> bool:
        """Whether a good cookie should be renewed."""
        return int(cookie.split(".")[1]) - self._clock.now() // SECOND < SESSION_LIFETIME_SECONDS - RENEW_AFTER_SECONDS

    def csrf_token(self, key: ApiKey, cookie: str) -> str:
        """What a page must send along with this cookie: pages of others cannot read it."""
        return _sign(key, "csrf", cookie)

    def require_csrf_token(self, key: ApiKey, cookie: str, headers: Headers) -> None:
        """Refuse a change that another page sent with this cookie."""
        require_same_origin(headers)
        if not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), self.csrf_token(key, cookie).encode()):
            raise RefusedError("X-CSRF-Token is missing or wrong; load the page anew")

    def _verify(self, key: ApiKey, cookie: str) -> ApiKey:
        said, _, mark = cookie.rpartition(".")
        # The mark first: what is not ours is not even read.
        if not hmac.compare_digest(mark.encode(), _sign(key, "session", said).encode()):
            raise UnauthorizedError(SESSION_ENDED_MESSAGE)
        if int(said.split(".")[1]) <= self._clock.now() // SECOND:
            raise UnauthorizedError(SESSION_ENDED_MESSAGE)
        return self._key_cache.record_use(key)


def require_same_origin(headers: Headers) -> None:
    """Refuse what does not come from a page of this very server; browsers tell the origin of every change."""
    origin = urlsplit(headers.get("origin", ""))
    if not origin.netloc or origin.netloc.lower() != headers.get("host", "").lower():
        raise RefusedError(FOREIGN_ORIGIN_MESSAGE)


def is_https(headers: Headers, scheme: str) -> bool:
    """Whether the browser speaks https, be it to a proxy before us: its own word, and about its own cookie only."""
    return scheme == "https" or headers.get("origin", "").startswith("https:")


def _sign(key: ApiKey, purpose: str, payload: str) -> str:
    return hmac.new(bytes.fromhex(key.sha256), f"inturn {purpose} {payload}".encode(), hashlib.sha256).hexdigest()
