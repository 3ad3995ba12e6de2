"""Index documents by chunks of seqs, and search them: the two tables are described in the migration `search`.

A chunk is indexed once all of its documents are there, and again after some of them are gone. Documents behind the last
indexed chunk are read one by one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from inturn.model import NO_METADATA, Document
from inturn.search_query import DocumentTerms, SearchQuery, batch_term
from inturn.store_answers import CustomerMatch, ErrorMatch, SearchResult, matching_errors
from inturn.store_types import MAX_CANDIDATES, MAX_ERROR_BEGINNING, MAX_FAILURES
from inturn.stores.sql.queries import Queries, scalar
from inturn.stores.sql.rows import Row, document_from_row, parse_settings, text_id

CHUNK: Final = 2_048
"""Documents of a chunk. A search reads up to so many unindexed documents one by one, in about 20 ms."""
MAX_UNINDEXED: Final = 2 * CHUNK
"""Unindexed documents that a search reads; of more, the newest."""
WRITTEN_TERMS: Final = 4_000
"""Terms that one transaction writes, in about 20 ms: with SQLite, claims wait for it."""
PURGED_CHUNKS: Final = 8
"""Chunks in which one transaction looks for a customer's terms."""
TERM_COLUMNS: Final = ("term", "customer", "places")
LAST_TEXT: Final = "\U0010ffff"
READ_SIZE: Final = 100
SEEN_ROWS: Final = 8


class ChunkIndex(NamedTuple):
    """What the index is to have of one chunk, and how its terms differ from those that are stored."""

    chunk: int
    documents: int
    oldest: int
    newest: int
    added: Sequence[tuple[str, int, str]]
    """Term, customer, and the places of its documents, in the order of the index: new, or with other places."""
    removed: Sequence[tuple[str, int]]

    def parts(self) -> Iterator[tuple[str, Sequence[str], Sequence[Row]]]:
        """Yield what transactions write one after another: the query, its columns, and rows."""
        for query, columns, rows in (
            ("remove_terms", TERM_COLUMNS[:2], self.removed),
            ("add_terms", TERM_COLUMNS, self.added),
        ):
            for at in range(0, len(rows), WRITTEN_TERMS):
                yield query, columns, rows[at : at + WRITTEN_TERMS]


# -- the index ----------------------------------------------------------------------------------------------------


def read_next_chunk(queries: Queries) -> ChunkIndex | None:
    """Read the next chunk that can be indexed; None if there is none. Chunks without a document are passed over."""
    start = int(scalar(queries, "search_progress"))
    first = queries.fetch_one("first_seq_from", seq=start * CHUNK)
    if first is None or first[0] is None:
        return None
    chunk = int(first[0]) // CHUNK
    return read_chunk(queries, chunk) if (chunk + 1) * CHUNK - 1 <= int(scalar(queries, "searchable_seq")) else None


def read_chunk(queries: Queries, chunk: int) -> ChunkIndex:
    """Read the documents of a chunk and what the index has of it, and make its part of the index."""
    start = chunk * CHUNK
    rows = queries.fetch_all("documents_to_index", first=start, last=start + CHUNK - 1)
    places: dict[tuple[str, int], list[str]] = {}
    for seq, customer, name, metadata, batch, _ in rows:
        terms = DocumentTerms.of(name, _parse_metadata(metadata))
        place = str(seq - start)
        for term in (*terms.words, *terms.pairs, *(() if batch is None else (batch_term(batch),))):
            places.setdefault((term, customer), []).append(place)
    times = [row[-1] for row in rows] or [0]
    stored = {(term, customer): text for term, customer, text in queries.fetch_all("terms_of_chunk", chunk=chunk)}
    added = [(*key, text) for key in sorted(places) if stored.get(key) != (text := ",".join(places[key]))]
    return ChunkIndex(chunk, len(rows), min(times), max(times), added, sorted(stored.keys() - places.keys()))


def write_terms(queries: Queries, index: ChunkIndex, part: tuple[str, Sequence[str], Sequence[Row]]) -> bool:
    """Write a part of a chunk's terms; False if documents of it are gone by now."""
    query, columns, rows = part
    if _is_outdated(queries, index):
        return False
    queries.execute_many(query, columns, rows, chunk=index.chunk)
    return True


def add_chunk(queries: Queries, index: ChunkIndex) -> bool:
    """Let searches use a new chunk, after its terms; False if it is outdated, or another process has done so."""
    if _is_outdated(queries, index) or not queries.execute("advance_search", chunk=index.chunk, next=index.chunk + 1):
        return False
    if index.documents:
        queries.execute("add_chunk", chunk=index.chunk, **_figures(index))
    return True


def update_chunk(queries: Queries, index: ChunkIndex) -> bool:
    """Record that the terms of a chunk are those of the documents that are left; False if it is outdated."""
    if _is_outdated(queries, index):
        return False
    if index.documents:
        queries.execute("update_chunk", chunk=index.chunk, **_figures(index))
    else:
        queries.execute("remove_chunk", chunk=index.chunk)
    return True


def _figures(index: ChunkIndex) -> dict[str, int]:
    return {"documents": index.documents, "oldest": index.oldest, "newest": index.newest}


def _is_outdated(queries: Queries, index: ChunkIndex) -> bool:
    """Return whether documents of a chunk are gone since it was read: none ever joins it."""
    start = index.chunk * CHUNK
    return int(scalar(queries, "documents_between", first=start, last=start + CHUNK - 1)) != index.documents


def stale_chunks(queries: Queries, limit: int) -> list[int]:
    """Return the first chunks that have fewer documents than when they were indexed."""
    return [chunk for (chunk,) in queries.fetch_all("stale_chunks", size=CHUNK, limit=limit)]


def indexed_ranges(queries: Queries) -> list[tuple[int, int]]:
    """Return the first and the last chunk of successive parts of the index."""
    first, last = queries.fetch_one("indexed_chunks") or (None, None)
    if first is None:
        return []
    return [(at, at + PURGED_CHUNKS - 1) for at in range(first, last + 1, PURGED_CHUNKS)]


def purge_terms(queries: Queries, customer: str, chunks: tuple[int, int]) -> None:
    """Delete the terms of a customer without documents from a part of the index; `clean_index` does the rest."""
    row, (first, last) = queries.fetch_one("customer", name=customer), chunks
    if row is not None:
        queries.execute("purge_terms", customer=row[0], first=first, last=last)


def seqs_submitted_between(queries: Queries, since: int, until: int) -> tuple[int, int | None]:
    """Return bounds of the seqs of documents submitted in a range: the second is None if it is open."""
    unindexed = int(scalar(queries, "search_progress")) * CHUNK
    first, last = queries.fetch_one("chunks_between", since=since, until=until) or (None, None)
    if queries.fetch_one("unindexed_between", first=unindexed, since=since, until=until):
        return unindexed if first is None else first * CHUNK, None
    return (1, 0) if first is None else (first * CHUNK, (last + 1) * CHUNK - 1)


# -- search ---------------------------------------------------------------------------------------------------------


class Search:
    """One search of one snapshot."""

    def __init__(self, queries: Queries, text: str, customer: str | None, limit: int) -> None:
        self._queries = queries
        self._query = SearchQuery.parse(text)
        self._customer = customer
        self._limit = limit
        row = None if customer is None else queries.fetch_one("customer", name=customer)
        self._owner = None if customer is None else -1 if row is None else row[0]
        self._is_complete = True

    def run(self) -> SearchResult:
        """Search documents, batches and customers."""
        if not self._query.text:
            return SearchResult()
        unindexed = self._unindexed()
        documents = self._documents(unindexed)
        matches = self._batches(unindexed), self._customers(), self._errors()
        return SearchResult(documents, *matches, is_complete=self._is_complete)

    def _unindexed(self) -> list[Row]:
        """Read the newest documents that are not indexed."""
        first = int(scalar(self._queries, "search_progress")) * CHUNK
        rows = self._queries.fetch_all("unindexed_documents", first=first, owner=self._owner, limit=MAX_UNINDEXED + 1)
        if len(rows) > MAX_UNINDEXED:
            self._is_complete = False
        return rows[:MAX_UNINDEXED]

    def _documents(self, unindexed: Sequence[Row]) -> tuple[Document, ...]:
        """Return the matching documents, those with a matching id first, then newest first."""
        query, limit = self._query, self._limit
        seqs = {seq for seq, name, metadata, _ in unindexed if query.matches(name, _parse_metadata(metadata))}
        by_id = self._documents_by_id()
        seqs.update(self._indexed_seqs())
        documents = {document.seq: document for document in by_id}
        ordered = sorted(seqs - documents.keys(), reverse=True)
        for at in range(0, len(ordered), READ_SIZE):
            rows = self._queries.fetch_many("documents_by_seq", ("seq",), [(s,) for s in ordered[at : at + READ_SIZE]])
            for row in sorted(rows, key=itemgetter(2), reverse=True):
                document = document_from_row(row)
                if query.matches(document.spec.name, document.spec.metadata):
                    documents[document.seq] = document
            if len(documents) > limit:
                break
        self._is_complete &= len(documents) <= limit
        return tuple(documents.values())[:limit]

    def _documents_by_id(self) -> list[Document]:
        prefix = self._query.id_prefix
        if prefix is None:
            return []
        low, high = (_uuid_text(prefix.ljust(32, digit)) for digit in "0f")
        values = {"low": low, "high": high, "owner": self._owner, "limit": self._limit + 1}
        documents = [document_from_row(row) for row in self._queries.fetch_all("documents_by_id_prefix", **values)]
        return sorted(documents, key=lambda document: document.seq, reverse=True)

    def _indexed_seqs(self) -> set[int]:
        """Return the seqs that the index has for the rarest of the words, and for the pair."""
        seqs = set() if self._query.pair is None else set(self._seqs_of(self._query.pair))
        best: list[int] | None = None
        for word in sorted(self._query.words, key=len, reverse=True):
            if best is None or len(best) > SEEN_ROWS:
                of_word = self._seqs_of(word)
                best = of_word if best is None or len(of_word) < len(best) else best
        if best is not None and len(best) >= MAX_CANDIDATES:
            self._is_complete = False
        return seqs.union(best or ())

    def _seqs_of(self, prefix: str) -> list[int]:
        """Return up to `MAX_CANDIDATES` seqs of documents with a term that begins so, newest chunks first."""
        rows = self._queries.fetch_all(
            "term_places", low=prefix, high=prefix + LAST_TEXT, owner=self._owner, limit=MAX_CANDIDATES
        )
        seqs: list[int] = []
        for chunk, places in rows:
            seqs += [chunk * CHUNK + int(place) for place in places.split(",")]
            if len(seqs) >= MAX_CANDIDATES:
                break
        return seqs[:MAX_CANDIDATES]

    def _batches(self, unindexed: Sequence[Row]) -> tuple[str, ...]:
        """Return the names of matching batches, by name."""
        names = {batch for *_, batch in unindexed if batch is not None and self._query.matches_batch(batch)}
        seqs = self._seqs_of(batch_term(self._query.text))
        if len(seqs) >= MAX_CANDIDATES:
            self._is_complete = False
        for at in range(0, len(seqs), READ_SIZE):
            rows = self._queries.fetch_many("batches_by_seq", ("seq",), [(seq,) for seq in seqs[at : at + READ_SIZE]])
            names.update(batch for (batch,) in rows if batch is not None)
        if len(names) > self._limit:
            self._is_complete = False
        return tuple(sorted(names)[: self._limit])

    def _errors(self) -> tuple[ErrorMatch, ...]:
        """Return the errors of failed documents that have the text, newest first."""
        values = {"owner": self._owner, "limit": MAX_FAILURES + 1, "characters": MAX_ERROR_BEGINNING}
        rows = self._queries.fetch_all("newest_failures", **values)
        failures = ((text_id(id_), error) for id_, error in rows[:MAX_FAILURES])
        matches, are_all = matching_errors(failures, self._query, self._limit)
        self._is_complete &= are_all and len(rows) <= MAX_FAILURES
        return matches

    def _customers(self) -> tuple[CustomerMatch, ...]:
        """Return customers whose name or display name has the text, those that begin with it first."""
        text = self._query.text
        rows = self._queries.fetch_all("customers_to_search", text=text, name=self._customer)
        named = (CustomerMatch(name, parse_settings(settings).display_name) for name, settings in rows)
        matches = [match for match in named if self._query.is_in(match.name, match.display_name or "")]
        matches.sort(key=lambda match: (not match.name.lower().startswith(text), match.name))
        if len(matches) > self._limit:
            self._is_complete = False
        return tuple(matches[: self._limit])


def _parse_metadata(text: str | None) -> Mapping[str, Any]:
    return NO_METADATA if text is None else json.loads(text)


def _uuid_text(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
