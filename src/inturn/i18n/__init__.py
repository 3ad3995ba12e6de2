"""Texts for people, in five languages. English is the source; codes, JSON and logs are never translated.

A language is one flat TOML file, and for the web page one in `page/` for each of its sections. A text that depends on a
number has one form for each plural category that CLDR knows for the language (`documents.one`, `documents.few`, …) and
is chosen by the value `n`.
"""

import math
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Final, Literal

from babel import Locale
from babel.dates import format_datetime, format_skeleton, format_time, format_timedelta
from babel.numbers import format_decimal

from inturn.errors import InvalidInputError

LANGUAGES: Final = ("en", "de", "es", "pl", "pt")
SOURCE: Final = "en"
LOCALE_VARIABLES: Final = ("LC_ALL", "LC_MESSAGES", "LANG")
_UNITS: Final[tuple[tuple[Literal["day", "hour", "minute", "second"], int], ...]] = (
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
    ("second", 1),
)

Entry = str | Mapping[str, str]


@cache
def entries(language: str) -> Mapping[str, Entry]:
    """All texts of a language: plain ones, and those with plural forms."""
    stored = resources.files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8")
    return tomllib.loads(stored)


@cache
def page_entries(language: str) -> Mapping[str, Entry]:
    """All texts of the web page: `page/<section>.<language>.toml`, each key behind the name of its section."""
    folder, ending = resources.files(__name__).joinpath("page"), f".{language}.toml"
    result: dict[str, Entry] = {}
    for path in sorted(folder.iterdir(), key=lambda traversable: traversable.name):
        if path.name.endswith(ending):
            section = path.name.removesuffix(ending)
            stored = tomllib.loads(path.read_text(encoding="utf-8"))
            result |= {f"{section}.{key}": entry for key, entry in stored.items()}
    return result


def choose(wanted: str | None, environ: Mapping[str, str]) -> str:
    """The reader's language: as wanted, or by INTURN_LANG, or by the locale; English when that is none of ours."""
    name = wanted or environ.get("INTURN_LANG")
    if name:
        if _base(name) in LANGUAGES:
            return _base(name)
        raise InvalidInputError(f"the language (--lang, INTURN_LANG) is one of {', '.join(LANGUAGES)}, not {name!r}")
    locale = next((environ[name] for name in LOCALE_VARIABLES if environ.get(name)), SOURCE)
    return _base(locale) if _base(locale) in LANGUAGES else SOURCE


class Texts:
    """Texts, numbers, times and durations in one language."""

    def __init__(self, language: str = SOURCE) -> None:
        self.language = language
        self._locale = Locale.parse(language)
        self._entries = entries(language)

    def text(self, key: str, *, n: float = 1, **values: object) -> str:
        """The text of this key, its numbers written as the language does; `n` chooses the plural form."""
        entry = self._entries[key]
        if not isinstance(entry, str):
            entry = entry[self._locale.plural_form(n)]
        return entry.format(n=self.number(n), **{name: self._shown(value) for name, value in values.items()})

    def number(self, value: float) -> str:
        """A number with the language's marks."""
        return str(format_decimal(value, locale=self._locale))

    def time(self, at: int) -> str:
        """A time given in microseconds, in the machine's own zone."""
        local = (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)).astimezone()
        return _plain_spaces(format_datetime(local, "medium", tzinfo=local.tzinfo, locale=self._locale))

    def short_time(self, at: int, *, with_day: bool, with_seconds: bool) -> str:
        """A time as short as it can be, for an axis."""
        local = (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)).astimezone()
        clock = format_time(local, "medium" if with_seconds else "short", tzinfo=local.tzinfo, locale=self._locale)
        day = f"{format_skeleton('MMMd', local, tzinfo=local.tzinfo, locale=self._locale)}, " if with_day else ""
        return _plain_spaces(f"{day}{clock}")

    def duration(self, length: int) -> str:
        """A length of time given in microseconds, in its two largest units."""
        left = round(length / 1_000_000)
        parts: list[str] = []
        for unit, size in _UNITS:
            amount, left = divmod(left, size)
            if amount or (unit == "second" and not parts):
                whole = timedelta(seconds=amount * size)
                # A threshold out of reach keeps the unit; format_unit lacks some of them in Portuguese.
                parts.append(format_timedelta(whole, granularity=unit, threshold=math.inf, locale=self._locale))
        return _plain_spaces(" ".join(parts[:2]))

    def _shown(self, value: object) -> str:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.number(value)
        return str(value)


def _base(name: str) -> str:
    """The language of a locale's name, such as pt of pt_BR.UTF-8."""
    for mark in "_-.@":
        name = name.partition(mark)[0]
    return name.lower()


def _plain_spaces(text: str) -> str:
    """CLDR's narrow spaces are not in every terminal's font."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")
