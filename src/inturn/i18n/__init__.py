"""Texts for people, in five languages. English is the source; codes, JSON and logs are never translated.

A language is one TOML file: the texts of the command line first, then a table `[page.<section>]` for each section of
the web page. A text that depends on a number has one form for each plural category that CLDR knows for the language
(`documents.one`, `documents.few`, …); the value `n` chooses the form.
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

_PAGE_TABLES: Final = "\n[page."
"""Where the texts of the web page begin in a language's file."""

Entry = str | Mapping[str, str]


@cache
def entries(language: str) -> Mapping[str, Entry]:
    """Read the texts of the command line: plain ones, and those with plural forms.

    The page's tables are cut off unparsed: they would add about 12 ms to the start of every command.
    """
    return tomllib.loads(_read(language).partition(_PAGE_TABLES)[0])


@cache
def page_entries(language: str) -> Mapping[str, Entry]:
    """Read the texts of the web page; the key of a text is `section.key`."""
    _, start, rest = _read(language).partition(_PAGE_TABLES)
    sections: dict[str, dict[str, Entry]] = tomllib.loads(start + rest)["page"]
    return {f"{section}.{key}": entry for section, texts in sections.items() for key, entry in texts.items()}


def _read(language: str) -> str:
    return resources.files(__name__).joinpath(f"{language}.toml").read_text(encoding="utf-8")


def choose(wanted: str | None, environ: Mapping[str, str]) -> str:
    """Choose the language: as wanted, else by INTURN_LANG, else by the locale; English for a locale without texts."""
    name = wanted or environ.get("INTURN_LANG")
    if name:
        if _base(name) in LANGUAGES:
            return _base(name)
        raise InvalidInputError(f"the language (--lang, INTURN_LANG) is one of {', '.join(LANGUAGES)}, not {name!r}")
    locale = next((environ[name] for name in LOCALE_VARIABLES if environ.get(name)), SOURCE)
    return _base(locale) if _base(locale) in LANGUAGES else SOURCE


class Texts:
    """Format texts, numbers, times and durations in one language."""

    def __init__(self, language: str = SOURCE) -> None:
        self.language = language
        self._locale = Locale.parse(language)
        self._entries = entries(language)

    def text(self, key: str, *, n: float = 1, **values: object) -> str:
        """Format the text of a key with its values; `n` chooses the plural form."""
        entry = self._entries[key]
        if not isinstance(entry, str):
            entry = entry[self._locale.plural_form(n)]
        return entry.format(n=self.number(n), **{name: self._format(value) for name, value in values.items()})

    def number(self, value: float) -> str:
        """Format a number with the separators of the language."""
        return str(format_decimal(value, locale=self._locale))

    def time(self, at: int) -> str:
        """Format a time in microseconds, in the machine's own time zone."""
        local = (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)).astimezone()
        return _plain_spaces(format_datetime(local, "medium", tzinfo=local.tzinfo, locale=self._locale))

    def short_time(self, at: int, *, with_day: bool, with_seconds: bool) -> str:
        """Format a time in microseconds as the label of an axis."""
        local = (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)).astimezone()
        clock = format_time(local, "medium" if with_seconds else "short", tzinfo=local.tzinfo, locale=self._locale)
        day = f"{format_skeleton('MMMd', local, tzinfo=local.tzinfo, locale=self._locale)}, " if with_day else ""
        return _plain_spaces(f"{day}{clock}")

    def duration(self, length: int) -> str:
        """Format a duration in microseconds in its two largest units."""
        left = round(length / 1_000_000)
        parts: list[str] = []
        for unit, size in _UNITS:
            amount, left = divmod(left, size)
            if amount or (unit == "second" and not parts):
                whole = timedelta(seconds=amount * size)
                # An infinite threshold keeps the unit. format_unit is no choice: Portuguese lacks some units.
                parts.append(format_timedelta(whole, granularity=unit, threshold=math.inf, locale=self._locale))
        return _plain_spaces(" ".join(parts[:2]))

    def _format(self, value: object) -> str:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self.number(value)
        return str(value)


def _base(name: str) -> str:
    """Strip a locale's name to its language: pt_BR.UTF-8 to pt."""
    for mark in "_-.@":
        name = name.partition(mark)[0]
    return name.lower()


def _plain_spaces(text: str) -> str:
    """Replace CLDR's narrow spaces, which some terminal fonts lack."""
    return text.replace("\u202f", " ").replace("\u00a0", " ")
