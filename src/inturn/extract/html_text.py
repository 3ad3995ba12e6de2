"""Reads the text of HTML: every text node that a browser would show, in any element.

Kreuzberg drops text outside paragraphs, headings and lists. The standard library's parser keeps it, but takes
quadratic time on malformed tags and raises on odd declarations. This reader takes linear time and never raises. It
builds no tree, so that the depth of nesting does not matter.
"""

import html
import re
from typing import Final

from inturn.extract.content import ExtractedContent
from inturn.extract.text_builder import TextBuilder, name_set

TAG_NAME: Final = re.compile(r"/?[a-zA-Z][^\s/>]*")
# A quoted value may contain ">".
TAG_END: Final = re.compile(r"""[^>"']*+(?:"[^"]*+"[^>"']*+|'[^']*+'[^>"']*+)*+>""")
ATTRIBUTE: Final = re.compile(r"""([a-zA-Z-]{1,40})\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s"'>]++))""")
MAX_BROKEN_TAGS: Final = 50
"""Tags with an unclosed quote, each of which costs a scan to the end. After so many, quotes are ignored."""

PARAGRAPH_ELEMENTS: Final = name_set(
    "address article aside blockquote dl details dialog fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr main"
    " menu nav ol p pre section table ul"
)
LINE_ELEMENTS: Final = name_set(
    "body br caption center col dd dir div dt figcaption frameset head html legend li option optgroup summary tbody"
    " tfoot thead title tr"
)
CELL_ELEMENTS: Final = frozenset(("td", "th"))
INLINE_ELEMENTS: Final = name_set("area audio button canvas img input label map object select textarea video")
SEPARATORS: Final = {
    **dict.fromkeys(INLINE_ELEMENTS, " "),
    **dict.fromkeys(CELL_ELEMENTS, "\t"),
    **dict.fromkeys(LINE_ELEMENTS, "\n"),
    **dict.fromkeys(PARAGRAPH_ELEMENTS, "\n\n"),
}
HIDDEN_ELEMENTS: Final = name_set("script style template iframe noembed noframes")
RAW_TEXT_END: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in (*HIDDEN_ELEMENTS, "title", "textarea")
}
HIDDEN_INPUTS: Final = name_set("hidden password checkbox radio file")
METADATA_KEYS: Final = {
    "author": "authors",
    "keywords": "keywords",
    "description": "subject",
    "dcterms.created": "created_at",
}


def read_html(source: str) -> ExtractedContent:
    """Read the text of a page and the metadata of its head; malformed markup counts as text."""
    reader = _HtmlReader(source)
    reader.read()
    return ExtractedContent(str(reader.builder), reader.metadata)


class _HtmlReader:
    def __init__(self, source: str) -> None:
        self.builder = TextBuilder()
        self.metadata: dict[str, str | list[str]] = {}
        self._source = source
        self._broken_tags = 0
        self._preformatted = 0

    def read(self) -> None:
        source, at = self._source, 0
        while (mark := source.find("<", at)) >= 0:
            name = TAG_NAME.match(source, mark + 1)
            if name:
                self._add_source(at, mark)
                at = self._read_tag(name.group().lower(), name.end())
            elif source.startswith(("!", "?", "/"), mark + 1):
                self._add_source(at, mark)
                at = self._skip_declaration(mark)
            else:  # a "less than" in the text
                self._add_source(at, mark + 1)
                at = mark + 1
        self._add_source(at, len(source))

    def _add_source(self, start: int, end: int) -> None:
        if start < end:
            self._add_text(self._source[start:end])

    def _add_text(self, text: str) -> None:
        text = html.unescape(text) if "&" in text else text
        if self._preformatted:
            self.builder.add(text)
        else:
            self.builder.add_collapsed(text)

    def _skip_declaration(self, mark: int) -> int:
        """Skip a comment, a document type or an instruction; the content of a CDATA section is text."""
        if self._source.startswith("<!--", mark):
            return self._end_of("-->", mark + 2)
        if self._source.startswith("<![CDATA[", mark):
            end = self._end_of("]]>", mark)
            self.builder.add_collapsed(self._source[mark + 9 : end].removesuffix("]]>"))
            return end
        return self._end_of(">", mark)

    def _end_of(self, delimiter: str, start: int) -> int:
        """Return the index behind the next delimiter; the length of the source if there is none."""
        at = self._source.find(delimiter, start)
        return at + len(delimiter) if at >= 0 else len(self._source)

    def _read_tag(self, name: str, at: int) -> int:
        """Add the separator of a tag, and the text of its attributes; return the index behind it."""
        end = self._tag_end(at)
        closing = name.startswith("/")
        name = name.removeprefix("/")
        # A custom element ("my-card") may be a block: a blank does no harm inside a line.
        self.builder.separate(SEPARATORS.get(name, " " if "-" in name else ""))
        if name == "pre":
            self._preformatted = max(0, self._preformatted + (-1 if closing else 1))
        if closing:
            return end
        if name in RAW_TEXT_END:
            return self._read_raw_text(name, end)
        if name in ("img", "area", "input", "meta"):
            self._read_attributes(name, self._source[at:end])
        return end

    def _tag_end(self, at: int) -> int:
        if self._broken_tags < MAX_BROKEN_TAGS:
            match = TAG_END.match(self._source, at)
            if match:
                return match.end()
            self._broken_tags += 1
        return self._end_of(">", at)

    def _read_raw_text(self, name: str, at: int) -> int:
        """Read an element without child elements: its text is shown, is the title, or is hidden."""
        match = RAW_TEXT_END[name].search(self._source, at)
        end = match.start() if match else len(self._source)
        content = self._source[at:end]
        if name == "textarea":
            self._add_text(content)
        elif name == "title" and "title" not in self.metadata:
            self.metadata["title"] = " ".join(html.unescape(content).split())
        return end

    def _read_attributes(self, name: str, tag: str) -> None:
        attributes = {match[1].lower(): match[2] or match[3] or match[4] or "" for match in ATTRIBUTE.finditer(tag)}
        if name == "meta":
            key = METADATA_KEYS.get(attributes.get("name", "").lower())
            value = " ".join(html.unescape(attributes.get("content", "")).split())
            if key and value:
                self.metadata[key] = [value] if key == "authors" else value
        elif name == "input":
            if attributes.get("type", "").lower() not in HIDDEN_INPUTS:
                self._add_text(attributes.get("value", ""))
        else:
            self._add_text(attributes.get("alt", ""))
