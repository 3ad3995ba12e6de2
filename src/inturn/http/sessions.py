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

from inturn.access import AccessKey
from inturn.clock import Clock
from inturn.http.errors import RefusedError, UnauthorizedError
from inturn.http.keys import Keyring
from inturn.model import SECOND

COOKIE: Final = "inturn_session"
TOKEN: Final = "x-csrf-token"  # noqa: S105 - the header's name
LASTS: Final = 7 * 86_400
RENEWED_AFTER: Final = 86_400
OVER: Final = "you are not signed in any more; sign in again with your key"
ELSEWHERE: Final = "this came from a page of somebody else's; use the page of this server"


class Sessions:
    """Makes and reads cookies."""

    def __init__(self, keyring: Keyring, clock: Clock) -> None:
        self._keyring = keyring
        self._clock = clock

    def begin(self, key: AccessKey) -> str:
        """A cookie's value for whoever has shown this key."""
        said = f"{key.id}.{self._clock.now() // SECOND + LASTS}.{secrets.token_hex(8)}"
        return f"{said}.{_mark(key, 'session', said)}"

    def remembered(self, cookie: str) -> AccessKey | None:
        """The key of a cookie, if that can be told without asking the store."""
        key = self._keyring.remembered(cookie.partition(".")[0])
        return None if key is None else self._checked(key, cookie)

    def find(self, cookie: str) -> AccessKey:
        """The live key that a cookie was made from."""
        return self._checked(self._keyring.looked_up(cookie.partition(".")[0]), cookie)

    def is_old(self, cookie: str) -> bool:
        """Whether a good cookie should be renewed."""
        return int(cookie.split(".")[1]) - self._clock.now() // SECOND < LASTS - RENEWED_AFTER

    def token(self, key: AccessKey, cookie: str) -> str:
        """What a page must send along with this cookie: pages of others cannot read it."""
        return _mark(key, "csrf", cookie)

    def must_be_ours(self, key: AccessKey, cookie: str, headers: Headers) -> None:
        """Refuse a change that another page sent with this cookie."""
        must_be_own_page(headers)
        if not hmac.compare_digest(headers.get(TOKEN, "").encode(), self.token(key, cookie).encode()):
            raise RefusedError("X-CSRF-Token is missing or wrong; load the page anew")

    def _checked(self, key: AccessKey, cookie: str) -> AccessKey:
        said, _, mark = cookie.rpartition(".")
        # The mark first: what is not ours is not even read.
        if not hmac.compare_digest(mark.encode(), _mark(key, "session", said).encode()):
            raise UnauthorizedError(OVER)
        if int(said.split(".")[1]) <= self._clock.now() // SECOND:
            raise UnauthorizedError(OVER)
        return self._keyring.used(key)


def must_be_own_page(headers: Headers) -> None:
    """Refuse what does not come from a page of this very server; browsers tell the origin of every change."""
    origin = urlsplit(headers.get("origin", ""))
    if not origin.netloc or origin.netloc.lower() != headers.get("host", "").lower():
        raise RefusedError(ELSEWHERE)


def is_encrypted(headers: Headers, scheme: str) -> bool:
    """Whether the browser speaks https, be it to a proxy before us: its own word, and about its own cookie only."""
    return scheme == "https" or headers.get("origin", "").startswith("https:")


def _mark(key: AccessKey, what: str, said: str) -> str:
    return hmac.new(bytes.fromhex(key.sha256), f"inturn {what} {said}".encode(), hashlib.sha256).hexdigest()
