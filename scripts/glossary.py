"""Write docs/design/glossary.md from docs/design/glossary.toml.

python scripts/glossary.py            writes the page
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
SOURCE: Final = ROOT / "docs" / "design" / "glossary.toml"
PAGE: Final = SOURCE.with_suffix(".md")
LANGUAGES: Final = ("en", "de", "es", "pl", "pt")
NAMES: Final = ("English", "German", "Spanish", "Polish", "Portuguese")
INTRO: Final = """\
# Glossary

One word for one thing, in every text that users see: page, command line, the API's messages, documents. The words come
from `glossary.toml` beside this page; `python scripts/glossary.py` writes the page from it, and
`tests/i18n/test_glossary.py` holds every text to it. Portuguese is Brazilian.

## How texts are written

- Short and plain: the sentence that an operator would say to a colleague. No "it", "somebody" or "nobody" as a subject.
- A button is a verb, or a verb and its object: "Pause queue". A heading is a noun. Both without a full stop.
- What the reader has to do stands in the text of an error: "Enter a whole number."
- German says "Sie", Spanish "usted", Portuguese "você". Polish uses the imperative ("Wybierz") and has no past tense of
  the second person, which would have to know whether the reader is a man or a woman.
- Quotes are “English”, „deutsch“, «español», „polski”, “português”. A range has an en dash without spaces.
- An ellipsis follows its word without a space; in German, a non-breaking space stands between them.
- Portuguese says *limiar* where the specification says *limite*: limits are something else here.
- Codes, JSON, settings and commands keep their English names in every language: `cap`, `rate`, `expedite`.

## Words
"""


def read() -> dict[str, dict[str, Any]]:
    """Read all terms, in the order of the file."""
    return tomllib.loads(SOURCE.read_text(encoding="utf-8"))


def render(terms: Mapping[str, Mapping[str, Any]]) -> str:
    """Write the terms as two tables: words with their meaning, and what stands for none of them."""
    words = [f"| {' | '.join(NAMES)} | meaning |", "|---" * (len(NAMES) + 1) + "|"]
    words += [
        f"| {' | '.join(term[language] for language in LANGUAGES)} | {term['meaning']} |" for term in terms.values()
    ]
    avoided = ["| instead of | say |", "|---|---|"]
    avoided += [row for term in terms.values() for row in _avoided(term)]
    parts = [INTRO, *words, "", "## Words that a test keeps out", ""]
    return "\n".join([*parts, "A star stands for any ending, and # for a value.", "", *avoided, ""])


def _avoided(term: Mapping[str, Any]) -> Iterable[str]:
    for language, name in zip(LANGUAGES, NAMES, strict=True):
        if language in term.get("not", {}):
            variants = ", ".join(f"`{variant}`" for variant in term["not"][language])
            yield f"| {name}: {variants} | {term[language]} |"


if __name__ == "__main__":
    PAGE.write_text(render(read()), encoding="utf-8")
