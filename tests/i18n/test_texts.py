"""The texts of the command line: same keys, plural forms and placeholders in five languages."""

import re
from pathlib import Path
from string import Formatter

import pytest
from babel import Locale

import inturn
from inturn.errors import InvalidInputError
from inturn.i18n import LANGUAGES, SOURCE, Texts, choose, entries

OTHERS = [language for language in LANGUAGES if language != SOURCE]
FOLDER = Path(inturn.__file__).parent
CLI_CODE = [path.read_text() for path in (FOLDER / "cli").rglob("*.py")]
"""Elsewhere `say` and `text` may be other functions."""
CODE = [path.read_text() for path in FOLDER.rglob("*.py")]


def forms(language: str, key: str) -> dict[str, str]:
    entry = entries(language)[key]
    return {"": entry} if isinstance(entry, str) else dict(entry)


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_has_the_same_keys_in_the_same_order(language: str) -> None:
    assert list(entries(language)) == list(entries(SOURCE))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_with_plurals_has_exactly_the_forms_its_language_needs(language: str) -> None:
    needed = {*Locale.parse(language).plural_form.tags, "other"}
    for key in entries(SOURCE):
        has_plurals = "" not in forms(SOURCE, key)
        assert set(forms(language, key)) == (needed if has_plurals else {""}), key


def test_polish_has_few_and_many() -> None:
    polish = Texts("pl")
    shown = [polish.text("before_all", n=n, parts="x").split(":")[0] for n in (1, 2, 5, 12, 22)]
    assert shown == ["1 dokument", "2 dokumenty", "5 dokumentów", "12 dokumentów", "22 dokumenty"]


def test_spanish_and_portuguese_say_millions_of() -> None:
    for language in ("es", "pt"):
        assert Texts(language).text("before_all", n=1_000_000, parts="x") == "1.000.000 de documentos: x."


@pytest.mark.parametrize("language", OTHERS)
def test_every_form_of_a_text_has_the_sources_placeholders(language: str) -> None:
    for key in entries(SOURCE):
        expected = {frozenset(placeholders(form)) for form in forms(SOURCE, key).values()}
        assert {frozenset(placeholders(form)) for form in forms(language, key).values()} == expected, key


def test_every_text_is_used() -> None:
    assert [key for key in entries(SOURCE) if not any(f'"{key}"' in code or f"'{key}'" in code for code in CODE)] == []


def test_every_text_that_is_used_is_there() -> None:
    used = {key for code in CLI_CODE for key in re.findall(r"\b(?:text|say)\(\s*['\"](\w+)['\"]", code)}
    assert used
    assert used <= set(entries(SOURCE))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_empty_or_ends_in_a_space(language: str) -> None:
    for key in entries(language):
        assert all(form and form == form.strip() for form in forms(language, key).values()), key


@pytest.mark.parametrize(
    ("language", "number", "length", "time"),
    [
        ("en", "12,345.5", "1 hour 5 minutes", "Nov 14, 2023, 10:13:20 PM"),
        ("de", "12.345,5", "1 Stunde 5 Minuten", "14.11.2023, 22:13:20"),
        ("es", "12.345,5", "1 hora 5 minutos", "14 nov 2023, 22:13:20"),
        ("pl", "12\u00a0345,5", "1 godzina 5 minut", "14 lis 2023, 22:13:20"),
        ("pt", "12.345,5", "1 hora 5 minutos", "14 de nov. de 2023 22:13:20"),
    ],
)
def test_numbers_times_and_durations_are_written_as_the_language_does(
    language: str, number: str, length: str, time: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    texts = Texts(language)
    assert texts.number(12_345.5) == number
    assert texts.duration(3_900_000_000) == length
    assert re.sub(r",? \d+:\d+.*", "", texts.time(1_700_000_000_500_000)) == re.sub(r",? \d+:\d+.*", "", time)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_duration_has_a_word_for_every_unit(language: str) -> None:
    for length in (0, 1, 60, 3_600, 86_400, 90_061):
        assert re.fullmatch(r"\d+ [^\W\d]+( \d+ [^\W\d]+)?", Texts(language).duration(length * 1_000_000))


@pytest.mark.parametrize(
    ("wanted", "environ", "language"),
    [
        ("de", {"INTURN_LANG": "pl", "LANG": "es"}, "de"),
        (None, {"INTURN_LANG": "pl", "LC_ALL": "es"}, "pl"),
        (None, {"LC_ALL": "es_MX.UTF-8", "LC_MESSAGES": "de", "LANG": "pl"}, "es"),
        (None, {"LC_MESSAGES": "de_AT@euro", "LANG": "pl"}, "de"),
        (None, {"LC_ALL": "", "LANG": "pt_BR.UTF-8"}, "pt"),
        ("pt-BR", {}, "pt"),
        (None, {"LC_ALL": "fr_FR", "LANG": "de"}, "en"),
        (None, {"LANG": "C.UTF-8"}, "en"),
        (None, {}, "en"),
    ],
)
def test_the_readers_language_is_chosen(wanted: str | None, environ: dict[str, str], language: str) -> None:
    assert choose(wanted, environ) == language


@pytest.mark.parametrize(("wanted", "environ"), [("fr", {}), (None, {"INTURN_LANG": "klingon"})])
def test_an_unknown_language_is_refused_with_the_five(wanted: str | None, environ: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="en, de, es, pl, pt"):
        choose(wanted, environ)


@pytest.mark.parametrize(
    ("language", "key", "words"),
    [
        ("es", "parts_left", "de partes"),
        ("es", "manual_held", "de documentos"),
        ("pt", "parts_left", "de partes"),
        ("pt", "manual_held", "de documentos"),
    ],
)
def test_millions_take_de(language: str, key: str, words: str) -> None:
    assert words in Texts(language).text(key, n=1_000_000, queue="q")
    assert words not in Texts(language).text(key, n=1_000, queue="q")
