"""Cache API keys of the store for a second, and store their last use once a minute."""

from collections import OrderedDict
from typing import Final

from inturn.api_keys import ApiKey, parse_api_key_id, verify_api_key
from inturn.clock import Clock
from inturn.errors import NotFoundError
from inturn.http.errors import UnauthorizedError
from inturn.store_api_keys import ApiKeys
from inturn.values import SECOND

CACHE_TTL: Final = SECOND
"""A revoked key stays valid at other servers for at most this long."""
LAST_USED_FLUSH_INTERVAL: Final = 60 * SECOND
MAX_CACHED_KEYS: Final = 10_000
INVALID_KEY_MESSAGE: Final = "this API key is not valid: it is mistyped, revoked or expired"


class ApiKeyCache:
    """The API keys of a store, as this server last read them."""

    def __init__(self, keys: ApiKeys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._cache: OrderedDict[str, tuple[int, ApiKey | None]] = OrderedDict()
        self._last_used: dict[str, int] = {}
        self._flushed_at = clock.now()

    def authenticate_cached(self, text: str) -> ApiKey | None:
        """Return the valid key of this text if it is cached."""
        key = self.get_cached(parse_api_key_id(text) or "")
        return None if key is None else self._verify(key, text)

    def authenticate(self, text: str) -> ApiKey:
        """Return the valid key of this text, read from the store."""
        id_ = parse_api_key_id(text)
        if id_ is None:
            raise UnauthorizedError(INVALID_KEY_MESSAGE)
        return self._verify(self.load(id_), text)

    def get_cached(self, id_: str) -> ApiKey | None:
        """Return a cached key, valid or not."""
        now = self._clock.now()
        at, key = self._cache.get(id_, (now - CACHE_TTL, None))
        return key if 0 <= now - at < CACHE_TTL else None

    def load(self, id_: str) -> ApiKey:
        """Read a key from the store, valid or not, and cache it."""
        now = self._clock.now()
        try:
            key = self._keys.find(id_)
        except NotFoundError:
            raise UnauthorizedError(INVALID_KEY_MESSAGE) from None
        self._put(key, now)
        return key

    def update(self, key: ApiKey) -> None:
        """Cache a key that this server has just changed; a slower read of its old state does not replace it."""
        self._put(key, self._clock.now())

    def record_use(self, key: ApiKey) -> ApiKey:
        """Note the use of a key, and return it; refuse one that is not valid."""
        now = self._clock.now()
        if not key.is_live(now):
            raise UnauthorizedError(INVALID_KEY_MESSAGE)
        self._last_used[key.id] = now
        return key

    def flush_last_used(self, *, force: bool = False) -> None:
        """Write the last use of keys to the store, once a minute or with `force`."""
        now = self._clock.now()
        if self._last_used and (force or now - self._flushed_at >= LAST_USED_FLUSH_INTERVAL):
            last_used, self._last_used, self._flushed_at = self._last_used, {}, now
            self._keys.record_use(last_used)

    def has_live_key(self) -> bool:
        """Whether any key is valid."""
        now = self._clock.now()
        return any(api_key.is_live(now) for api_key in self._keys.all())

    def _put(self, key: ApiKey, at: int) -> None:
        cached_at, _ = self._cache.get(key.id, (at, None))
        if 0 < cached_at - at < CACHE_TTL:
            return  # this read began before the key changed
        self._cache[key.id] = (at, key)
        self._cache.move_to_end(key.id)
        if len(self._cache) > MAX_CACHED_KEYS:
            self._cache.popitem(last=False)

    def _verify(self, key: ApiKey, text: str) -> ApiKey:
        if not verify_api_key(key, text):
            raise UnauthorizedError(INVALID_KEY_MESSAGE)
        return self.record_use(key)
