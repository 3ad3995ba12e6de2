"""Every text says the words of the glossary, `docs/design/glossary.toml`, in five languages."""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from inturn.i18n import LANGUAGES, Entry, entries, page_entries

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import glossary  # noqa: E402 - a script, not a package

TERMS = glossary.read()


def pattern(variant: str) -> re.Pattern[str]:
    """Match a variant as whole words; a star stands for any ending."""
    words = r"\s+".join(re.escape(word).replace(r"\*", r"\w*") for word in variant.split())
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


AVOIDED = {
    language: [
        (name, pattern(variant), tuple(term.get("except", ())))
        for name, term in TERMS.items()
        for variant in term.get("not", {}).get(language, ())
    ]
    for language in LANGUAGES
}


def forms(entry: Entry) -> tuple[str, ...]:
    return (entry,) if isinstance(entry, str) else tuple(entry.values())


def faults(language: str, texts: Mapping[str, Entry]) -> Iterator[str]:
    """Find words that the glossary keeps out."""
    for key, entry in texts.items():
        for name, avoided, exceptions in AVOIDED[language]:
            if any(fnmatchcase(key, exception) for exception in exceptions):
                continue
            for form in forms(entry):
                if match := avoided.search(re.sub(r"\{\w+\}", "#", form)):
                    yield f"{language} {key}: {match[0]!r} instead of {TERMS[name][language]!r} for {name}: {form}"


def all_texts(language: str) -> dict[str, Entry]:
    return {f"cli.{key}": entry for key, entry in entries(language).items()} | dict(page_entries(language))


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_uses_another_word_for_a_term(language: str) -> None:
    assert list(faults(language, all_texts(language))) == []


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The overdue slot is free"),
        ("en", "Try {n} documents again?"),
        ("de", "Dieser Auftrag ist verfallen."),
        ("de", "Die Warteschlange ist ANGEHALTEN"),
        ("es", "El plazo está vencido"),
        ("pl", "Złóż {n} dokumentów"),
        ("pl", "Udział z należnego"),
        ("pt", "Um documento vencido"),
    ],
)
def test_another_word_is_found_in_every_inflection_and_plural_form(language: str, text: str) -> None:
    assert len(list(faults(language, {"cli.planted": text}))) == 1
    assert len(list(faults(language, {"cli.planted": {"one": "fine", "other": text}}))) == 1


@pytest.mark.parametrize(("language", "text"), [("en", "display, captured, replayed"), ("de", "Gewichte, abgelaufen")])
def test_a_word_that_only_contains_another_is_no_fault(language: str, text: str) -> None:
    assert list(faults(language, {"cli.fine": text})) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_word_stands_for_one_term_only(language: str) -> None:
    words = Counter(term[language].casefold() for term in TERMS.values())
    assert [word for word, count in words.items() if count > 1] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_word_for_a_term_is_not_kept_out_by_another(language: str) -> None:
    assert list(faults(language, {f"glossary.{name}": term[language] for name, term in TERMS.items()})) == []


def test_the_page_is_written_from_the_terms() -> None:
    assert glossary.PAGE.read_text(encoding="utf-8") == glossary.render(TERMS), "run scripts/glossary.py"
