"""Whose key it is: looked up in the store, remembered for a second, its use noted now and then."""

from collections import OrderedDict
from typing import Final

from inturn.access import AccessKey, id_in, opens
from inturn.clock import Clock
from inturn.errors import NotFoundError
from inturn.http.errors import UnauthorizedError
from inturn.model import SECOND
from inturn.store import Keys

KEPT: Final = SECOND
"""A revoked key opens nothing after this."""
NOTED_EVERY: Final = 60 * SECOND
MOST: Final = 10_000
WRONG: Final = "this key opens nothing: it is wrong, was revoked or has expired"


class Keyring:
    """The keys of a store, as this server knows them."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._known: OrderedDict[str, tuple[int, AccessKey | None]] = OrderedDict()
        self._used: dict[str, int] = {}
        self._noted_at = clock.now()

    def known(self, text: str) -> AccessKey | None:
        """The live key that this text is, if that can be told without asking the store."""
        key = self.remembered(id_in(text) or "")
        return None if key is None else self._opened(key, text)

    def find(self, text: str) -> AccessKey:
        """The live key that this text is."""
        id_ = id_in(text)
        if id_ is None:
            raise UnauthorizedError(WRONG)
        return self._opened(self.looked_up(id_), text)

    def remembered(self, id_: str) -> AccessKey | None:
        """A key that was looked up just now, live or not."""
        now = self._clock.now()
        at, key = self._known.get(id_, (now - KEPT, None))
        return key if 0 <= now - at < KEPT else None

    def looked_up(self, id_: str) -> AccessKey:
        """A key as the store has it, live or not."""
        now = self._clock.now()
        try:
            key = self._keys.find(id_)
        except NotFoundError:
            raise UnauthorizedError(WRONG) from None
        self._remember(key, now)
        return key

    def changed(self, key: AccessKey) -> None:
        """Know at once what this server has done to a key, whatever an earlier look at the store still brings."""
        self._remember(key, self._clock.now())

    def used(self, key: AccessKey) -> AccessKey:
        """The key, if it opens anything now; that it was used is noted."""
        now = self._clock.now()
        if not key.is_live(now):
            raise UnauthorizedError(WRONG)
        self._used[key.id] = now
        return key

    def note_uses(self, *, at_once: bool = False) -> None:
        """Keep when keys were last used, once a minute: that is a write."""
        now = self._clock.now()
        if self._used and (at_once or now - self._noted_at >= NOTED_EVERY):
            used, self._used, self._noted_at = self._used, {}, now
            self._keys.use(used)

    def any_live(self) -> bool:
        """Whether anybody could come in."""
        now = self._clock.now()
        return any(each.is_live(now) for each in self._keys.all())

    def _remember(self, key: AccessKey, at: int) -> None:
        known_at, _ = self._known.get(key.id, (at, None))
        if 0 < known_at - at < KEPT:
            return  # looked up before the key changed, and slower
        self._known[key.id] = (at, key)
        self._known.move_to_end(key.id)
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def _opened(self, key: AccessKey, text: str) -> AccessKey:
        if not opens(key, text):
            raise UnauthorizedError(WRONG)
        return self.used(key)
