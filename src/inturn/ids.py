"""Ids of documents: UUIDs of version 7, so that neighbours in time are neighbours in an index."""

import os
from typing import Final, Protocol

from inturn.errors import InvalidInputError

_HEX: Final = frozenset("0123456789abcdef")


class Ids(Protocol):
    """Makes ids that were never given before."""

    def make(self, n: int, now: int) -> list[str]:
        """Make n ids."""
        ...


class RandomIds:
    """UUIDs of version 7: the millisecond, then 74 random bits."""

    def make(self, n: int, now: int) -> list[str]:
        """Make n ids."""
        stamp = f"{now // 1_000 & 0xFFFF_FFFF_FFFF:012x}"
        first = f"{stamp[:8]}-{stamp[8:]}-7"
        noise = os.urandom(10 * n).hex()
        return [_one(first, noise[at : at + 20]) for at in range(0, 20 * n, 20)]


def _one(first: str, noise: str) -> str:
    return f"{first}{noise[:3]}-{8 + int(noise[3], 16) % 4:x}{noise[4:7]}-{noise[7:19]}"


def clean_id(text: str) -> str:
    """A UUID in its usual form."""
    lowered = text.lower() if isinstance(text, str) else ""
    parts = lowered.split("-")
    if [len(part) for part in parts] != [8, 4, 4, 4, 12] or not _HEX.issuperset("".join(parts)):
        raise InvalidInputError(f"an id is a UUID such as 018f3c5e-0000-7000-8000-000000000000, not {text!r}")
    return lowered
