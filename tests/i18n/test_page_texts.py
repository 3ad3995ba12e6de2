"""The texts of the web page: same keys, plural forms and placeholders in five languages, all of them used."""

import re
from pathlib import Path
from string import Formatter

import pytest
from babel import Locale

import inturn
from inturn.errors import InturnError
from inturn.http import errors
from inturn.i18n import LANGUAGES, SOURCE, page_entries

OTHERS = [language for language in LANGUAGES if language != SOURCE]
STATIC = Path(inturn.__file__).parent / "http" / "static"
CODE = "\n".join(path.read_text() for path in STATIC.rglob("*.js"))
FAMILIES = tuple(re.findall(r"`(\w+\.\w*)\$\{", CODE))
"""Prefixes of keys that the code builds, such as `shell.state_${state}`."""


def forms(language: str, key: str) -> dict[str, str]:
    entry = page_entries(language)[key]
    return {"": entry} if isinstance(entry, str) else dict(entry)


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_has_the_same_keys_in_the_same_order(language: str) -> None:
    assert list(page_entries(language)) == list(page_entries(SOURCE))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_with_plurals_has_exactly_the_forms_its_language_needs(language: str) -> None:
    needed = {*Locale.parse(language).plural_form.tags, "other"}
    for key in page_entries(SOURCE):
        has_plurals = "" not in forms(SOURCE, key)
        assert set(forms(language, key)) == (needed if has_plurals else {""}), key


@pytest.mark.parametrize("language", OTHERS)
def test_every_form_of_a_text_has_the_sources_placeholders(language: str) -> None:
    for key in page_entries(SOURCE):
        expected = {frozenset(placeholders(form)) for form in forms(SOURCE, key).values()}
        assert {frozenset(placeholders(form)) for form in forms(language, key).values()} == expected, key


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_empty_or_ends_in_a_space(language: str) -> None:
    for key in page_entries(language):
        assert all(form and form == form.strip() for form in forms(language, key).values()), key


def test_every_text_is_used() -> None:
    unused = [key for key in page_entries(SOURCE) if f'"{key}"' not in CODE]
    assert [key for key in unused if not key.startswith(("errors.", *FAMILIES)) and not key.endswith(".title")] == []


def test_every_text_that_is_used_is_there() -> None:
    used = set(re.findall(r"\bt\(\s*\"([\w.]+)\"", CODE))
    assert used
    assert used <= set(page_entries(SOURCE))


def test_every_error_text_is_that_of_a_code() -> None:
    def below(kind: type[InturnError]) -> set[type[InturnError]]:
        return {kind}.union(*(below(item) for item in kind.__subclasses__()))

    known = {item.code for item in below(InturnError)} | set(errors.CODE_BY_STATUS.values()) | {"offline", "unexpected"}
    reported = {key.removeprefix("errors.") for key in page_entries(SOURCE) if key.startswith("errors.")}
    assert reported <= known
