"""Reads the properties of a package: title, authors, dates."""

from typing import Any, Final

from inturn import media_types
from inturn.extract import zip_checks
from inturn.extract.epub_text import opf_name
from inturn.extract.limits import ExtractLimits
from inturn.extract.xml_parts import XmlParser, local_name

PROPERTY_KEYS: Final = {
    "title": "title",
    "subject": "subject",
    "creator": "authors",
    "initial-creator": "authors",
    "keywords": "keywords",
    "keyword": "keywords",
    "created": "created_at",
    "creation-date": "created_at",
    "modified": "modified_at",
    "date": "modified_at",
}
MAX_VALUES: Final = 100


def read_properties(package: zip_checks.Package, media_type: str, limits: ExtractLimits) -> dict[str, Any]:
    """Read the properties of a package; of a damaged part, those before the damage."""
    if media_type == media_types.EPUB:
        part = opf_name(package, limits)
    else:
        part = "docProps/core.xml" if media_type in media_types.MAIN_PARTS else "meta.xml"
    reader = _PropertyReader(limits.depth)
    reader.parse(package.read_chunks(part))
    values = reader.values
    # In OpenDocument `creator` is the person who saved the file last.
    authors = values.get("initial-creator") or values.get("creator")
    properties: dict[str, Any] = {
        key: values[name] if key == "keywords" else values[name][0]
        for name, key in PROPERTY_KEYS.items()
        if name in values
    }
    if authors:
        properties["authors"] = authors
    return properties


class _PropertyReader(XmlParser):
    def __init__(self, max_depth: int) -> None:
        super().__init__(max_depth)
        self.values: dict[str, list[str]] = {}
        self._text: list[str] = []
        self._parser.CharacterDataHandler = self._add_text

    def _add_text(self, text: str) -> None:
        self._text.append(text)

    def start(self, name: str, attributes: list[str]) -> None:
        super().start(name, attributes)
        self._text.clear()

    def end(self, name: str) -> None:
        super().end(name)
        local, value = local_name(name), " ".join("".join(self._text).split())
        self._text.clear()
        if local in PROPERTY_KEYS and value:
            values = self.values.setdefault(local, [])
            if len(values) < MAX_VALUES:
                values.append(value)
