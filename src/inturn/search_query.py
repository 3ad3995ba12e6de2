"""Define what a search text matches, and the terms by which a store's index finds it.

A *word* is a run of letters and digits of a document's name or of a value of its metadata, in lower case. A *pair* is
`key:value` of its metadata. Every store applies `SearchQuery.matches`; the index only narrows down where to look.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

MAX_WORD_LENGTH: Final = 64
MAX_PAIR_LENGTH: Final = 128
"""Characters. A longer word or pair is cut off, in documents and in search texts alike."""
MAX_TERMS: Final = 64
"""Terms of one document: those of its name come first, then pairs, then words of values."""
MAX_VALUES: Final = MAX_TERMS
"""Values of a document's metadata that are read for terms: the first."""
MAX_READ_CHARACTERS: Final = 2_048
"""Characters of a name, and of all values together, that are read for words: a search reads thousands of documents."""
MAX_QUERY_WORDS: Final = 8
BATCH_MARK: Final = "\x01"
"""Stands before a batch's name among the terms; no word and no pair begins with it."""
_WORD: Final = re.compile(r"[^\W_]+")
_UNSTORABLE: Final = re.compile("[\x00-\x1f\ud800-\udfff]+")


class DocumentTerms(NamedTuple):
    """The terms of one document."""

    words: frozenset[str]
    pairs: frozenset[str]

    @classmethod
    def of(cls, name: str, metadata: Mapping[str, Any]) -> "DocumentTerms":
        """Return the words and pairs of a document, at most `MAX_TERMS`."""
        of_name = list(dict.fromkeys(_words(name[:MAX_READ_CHARACTERS])))[:MAX_TERMS]
        values = list(islice(_values(metadata), MAX_VALUES))
        pairs = list(dict.fromkeys(_pair(key, text) for key, text in values))[: MAX_TERMS - len(of_name)]
        of_values = _words(" ".join(text[:MAX_READ_CHARACTERS] for _, text in values)[:MAX_READ_CHARACTERS])
        words = list(dict.fromkeys(of_name + of_values))[: MAX_TERMS - len(pairs)]
        return cls(frozenset(words), frozenset(pairs))


class SearchQuery(NamedTuple):
    """A search text, taken apart."""

    text: str
    """In lower case, without the space around it."""
    words: tuple[str, ...]
    """Each must begin a word of the document."""
    pair: str | None
    """Must begin a pair of the document; None if the text is no `key:value`."""

    @classmethod
    def parse(cls, text: str) -> "SearchQuery":
        """Take a text apart."""
        lowered = _cleaned(text).lower().strip()
        key, colon, value = lowered.partition(":")
        pair = _pair(key, value) if colon and key.strip() and value.strip() else None
        return cls(lowered, tuple(dict.fromkeys(_words(lowered)))[:MAX_QUERY_WORDS], pair)

    def matches(self, name: str, metadata: Mapping[str, Any]) -> bool:
        """Return whether a document with this name and metadata matches: by its pair, or by all words."""
        terms = DocumentTerms.of(name, metadata)
        if self.pair is not None and any(pair.startswith(self.pair) for pair in terms.pairs):
            return True
        return bool(self.words) and all(any(term.startswith(word) for term in terms.words) for word in self.words)

    def is_in(self, *texts: str) -> bool:
        """Return whether one of the texts has this one in it."""
        return any(self.text in text.lower() for text in texts)

    def matches_batch(self, batch: str) -> bool:
        """Return whether a batch's name begins with the text."""
        return bool(self.text) and batch_term(batch).startswith(batch_term(self.text))

    def matches_id(self, id_: str) -> bool:
        """Return whether a document's id begins with the text, with or without hyphens."""
        return self.id_prefix is not None and id_.replace("-", "").startswith(self.id_prefix)

    @property
    def id_prefix(self) -> str | None:
        """The text as the beginning of an id, without hyphens; None if it is none, or has fewer than 4 digits."""
        digits = self.text.replace("-", "")
        return digits if re.fullmatch("[0-9a-f]{4,32}", digits) else None


def batch_term(batch: str) -> str:
    """Return the term of a batch."""
    return BATCH_MARK + _cleaned(batch).lower()[:MAX_PAIR_LENGTH]


def _pair(key: str, value: str) -> str:
    key, value = _cleaned(key[: 2 * MAX_PAIR_LENGTH]), _cleaned(value[: 2 * MAX_PAIR_LENGTH])
    return f"{key.lower().strip()}:{value.lower().strip()}"[:MAX_PAIR_LENGTH]


def _words(text: str) -> list[str]:
    return [word[:MAX_WORD_LENGTH] for word in _WORD.findall(text.lower())]


def _values(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys of metadata with their values as text."""
    for key, value in metadata.items():
        for text in _texts(value):
            yield key, text


def _texts(value: Any) -> Iterator[str]:
    """Yield a value of metadata as text: texts, numbers and booleans, also those in a list."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (bool, int, float)):
        yield json.dumps(value)
    elif isinstance(value, list):
        for item in value:
            if not isinstance(item, list):
                yield from _texts(item)


def _cleaned(text: str) -> str:
    """Replace what no database stores in a text."""
    return _UNSTORABLE.sub(" ", text)
