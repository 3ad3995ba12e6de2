"""Document ids: UUIDs of version 7, so that documents of one time are adjacent in an index."""

import os
from typing import Final, Protocol

from inturn.errors import InvalidInputError

_HEX: Final = frozenset("0123456789abcdef")
_VARIANT_BYTES: Final = tuple(f"{0x80 | number:02x}" for number in range(64))


class Ids(Protocol):
    """A generator of unique ids."""

    def make(self, n: int, now: int) -> list[str]:
        """Return n new ids."""


class RandomIds:
    """UUIDs of version 7: the millisecond, an 18-bit counter with a random start, then 56 random bits.

    The ids of one call ascend, so that a database appends them to its index.
    """

    def make(self, n: int, now: int) -> list[str]:
        """Return n new ids."""
        stamp = f"{now // 1_000 & 0xFFFF_FFFF_FFFF:012x}"
        prefix = f"{stamp[:8]}-{stamp[8:]}-7"
        noise = os.urandom(7 * n + 3).hex()
        first = int(noise[-6:], 16) % (2**18 - n)
        last = first + n
        heads = {high: f"{prefix}{high:03x}-" for high in range(first >> 6, (last - 1 >> 6) + 1)}
        return [
            f"{heads[number >> 6]}{_VARIANT_BYTES[number & 63]}{noise[at : at + 2]}-{noise[at + 2 : at + 14]}"
            for number, at in zip(range(first, last), range(0, 14 * n, 14), strict=True)
        ]


def clean_id(text: str) -> str:
    """Validate a UUID and return it in lower case."""
    lower = text.lower() if isinstance(text, str) else ""
    parts = lower.split("-")
    if [len(part) for part in parts] != [8, 4, 4, 4, 12] or not _HEX.issuperset("".join(parts)):
        raise InvalidInputError(f"an id is a UUID such as 018f3c5e-0000-7000-8000-000000000000, not {text!r}")
    return lower
