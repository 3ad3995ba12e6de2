"""Search, and the index behind it."""

from typing import Any

import pytest

from inturn.errors import InvalidInputError
from inturn.model import NewDocument
from inturn.store_answers import CustomerMatch, ErrorMatch, SearchResult
from inturn.testing.contract.harness import ANNA, START, StoreHarness, guarantee

FULL_INDEX = 5_000
"""More documents than a chunk of the index has, so that some are indexed and some are not."""


def submit(harness: StoreHarness, customer: str, *documents: NewDocument) -> list[str]:
    """Submit documents in one call; return their ids."""
    return [receipt.id for receipt in harness.queue.submit(customer, documents)]


def names_of(harness: StoreHarness, text: str, **options: Any) -> list[str]:
    """Search, and return the documents' names; the result must be complete."""
    result = harness.store.search(text, limit=100, **options)
    assert result.is_complete
    return [document.spec.name for document in result.documents]


def index_all(harness: StoreHarness) -> None:
    """Index all that can be indexed."""
    while harness.store.index_documents(limit=1_000):
        pass


class TestSearch:
    """Test `Store.search`."""

    @guarantee("S70")
    def test_matches_documents_by_words_of_name_and_metadata(self, harness: StoreHarness) -> None:
        submit(
            harness,
            "acme",
            NewDocument(
                "Invoice 2024-0017.pdf", metadata={"invoice": "PL-2024-1812", "pages": 3, "tags": ["Spring", 7]}
            ),
            NewDocument("invoice_2024_0018.PDF", metadata={"invoice": "PL-2024-1813", "paid": True}),
            NewDocument("Übersicht März.txt", metadata={"Kunde": "Müller & Söhne", "nested": {"a": "hidden"}}),
        )
        first, second, third = "Invoice 2024-0017.pdf", "invoice_2024_0018.PDF", "Übersicht März.txt"
        assert names_of(harness, "invoice") == [second, first]
        assert names_of(harness, " INV 0017 ") == [first]
        assert names_of(harness, "invoice:PL-2024-1812") == [first]
        assert names_of(harness, "Invoice: pl-2024-181") == [second, first]
        assert names_of(harness, "PL-2024-1813") == [second]
        assert names_of(harness, "paid:true") == [second]
        assert (
            names_of(harness, "pages:3") == names_of(harness, "tags:spring") == names_of(harness, "tags:7") == [first]
        )
        assert names_of(harness, "übersicht") == names_of(harness, "kunde:MÜLLER & SÖHNE") == [third]
        assert names_of(harness, "hidden") == names_of(harness, "nvoice") == names_of(harness, "invoice missing") == []
        assert names_of(harness, "invoice:PL-2024-1812x") == names_of(harness, "") == names_of(harness, "%") == []

    @guarantee("S70")
    def test_matches_documents_by_the_beginning_of_their_id(self, harness: StoreHarness) -> None:
        ids = submit(harness, "acme", *[NewDocument(f"{n}.txt") for n in range(3)])
        for text in (ids[1], ids[1].upper(), ids[1].replace("-", "")):
            result = harness.store.search(text, limit=10)
            assert [document.id for document in result.documents] == [ids[1]]
        beginning = harness.store.search(ids[0][:8], limit=10).documents
        assert {document.id for document in beginning} == {id_ for id_ in ids if id_.startswith(ids[0][:8])}
        (copy,) = submit(harness, "acme", NewDocument(f"copy of {ids[0]}.txt"))
        assert [document.id for document in harness.store.search(ids[0], limit=10).documents] == [ids[0], copy]

    @guarantee("S70")
    def test_matches_batches_and_customers(self, harness: StoreHarness) -> None:
        submit(harness, "acme", NewDocument("a", batch="July 2024"), NewDocument("b", batch="july 2025"))
        submit(harness, "jules", NewDocument("c", batch="August"))
        harness.queue.change_customer("beta", ANNA, display_name="Büro Juliane")
        result = harness.store.search("JUL", limit=10)
        assert result.batches == ("July 2024", "july 2025")
        assert result.customers == (CustomerMatch("jules", None), CustomerMatch("beta", "Büro Juliane"))
        assert harness.store.search("büro", limit=10).customers == (CustomerMatch("beta", "Büro Juliane"),)
        assert harness.store.search("uly", limit=10).batches == ()

    @guarantee("S70", "S67")
    def test_matches_errors_by_their_first_line(self, harness: StoreHarness) -> None:
        submit(harness, "acme", *[NewDocument(f"{n}.pdf") for n in range(3)])
        submit(harness, "beta", NewDocument("other.pdf"))
        failed = harness.claim(4)
        for claimed in failed:
            harness.advance(1)
            other = claimed.document.customer == "beta"
            harness.queue.fail(claimed, "No space" if other else "The Page is broken\nTraceback: secret", final=True)
        newest = next(one.document.id for one in reversed(failed) if one.document.customer == "acme")
        assert harness.store.search("page IS", limit=10).errors == (ErrorMatch("The Page is broken", 3, newest),)
        assert harness.store.search("secret", limit=10).errors == ()
        assert harness.store.search("no space", limit=10, customer="acme").errors == ()
        assert sorted(match.documents for match in harness.store.search("a", limit=10).errors) == [1, 3]
        harness.queue.retry(newest, ANNA)
        assert harness.store.search("page", limit=10, customer="acme").errors[0].documents == 2

    @guarantee("S70")
    def test_says_if_more_may_match_than_are_returned(self, harness: StoreHarness) -> None:
        submit(harness, "acme", *[NewDocument("same.txt", batch=f"batch {n}") for n in range(3)])
        assert [len(harness.store.search("same", limit=n).documents) for n in (2, 3, 4)] == [2, 3, 3]
        assert [harness.store.search("same", limit=n).is_complete for n in (2, 3, 4)] == [False, True, True]
        assert [harness.store.search("batch", limit=n).is_complete for n in (2, 3)] == [False, True]

    @guarantee("S67")
    def test_shows_a_customer_only_its_own(self, harness: StoreHarness) -> None:
        for customer in ("acme", "acme two", "beta"):
            submit(harness, customer, NewDocument(f"of {customer}", batch=f"batch {customer}", metadata={"k": "v"}))
        for customer in ("acme", "beta"):
            assert names_of(harness, "of", customer=customer) == [f"of {customer}"]
            assert names_of(harness, "k:v", customer=customer) == [f"of {customer}"]
            result = harness.store.search("batch", limit=10, customer=customer)
            assert result.batches == (f"batch {customer}",)
        assert harness.store.search("acme", limit=10, customer="acme").customers == (CustomerMatch("acme", None),)
        assert harness.store.search("beta", limit=10, customer="acme").customers == ()
        (other,) = harness.queue.documents().items[:1]
        assert harness.store.search(other.id, limit=10, customer="acme") == SearchResult()
        assert harness.store.search("of", limit=10, customer="unknown") == SearchResult()

    @guarantee("S67")
    def test_a_text_that_is_too_long_is_refused(self, harness: StoreHarness) -> None:
        with pytest.raises(InvalidInputError, match="text"):
            harness.queue.search("x" * 256)


class TestIndexDocuments:
    """Test `Store.index_documents` and `Store.clean_index`."""

    @guarantee("S70", "S68")
    def test_changes_no_result(self, harness: StoreHarness) -> None:
        wanted = {0: "first", 2_500: "middle", FULL_INDEX - 1: "last"}
        documents = [
            NewDocument(f"{wanted.get(n, 'other')} {n}.txt", metadata={"n": f"N-{n}"}, batch=f"b{n // 2_500}")
            for n in range(FULL_INDEX)
        ]
        for at in range(0, FULL_INDEX, 1_000):
            submit(harness, f"c{at // 1_000}", *documents[at : at + 1_000])
        index_all(harness)
        assert harness.store.index_documents(limit=1_000) == 0
        for text, names in (
            ("first", ["first 0.txt"]),
            ("middle", ["middle 2500.txt"]),
            ("n:n-4999", ["last 4999.txt"]),
            ("other 123", [f"other {n}.txt" for n in (*range(1239, 1229, -1), 123)]),
            ("middle 77", []),
            ("n:N-77", [f"other {n}.txt" for n in (*range(779, 769, -1), 77)]),
        ):
            assert names_of(harness, text) == names
        assert harness.store.search("b", limit=10).batches == ("b0", "b1")
        assert names_of(harness, "n:n-1500", customer="c1") == ["other 1500.txt"]
        assert names_of(harness, "n:n-1500", customer="c2") == []
        submit(harness, "c1", NewDocument("late.txt"))
        index_all(harness)
        assert names_of(harness, "late") == ["late.txt"]

    @guarantee("S68", "S69")
    def test_documents_that_are_gone_or_retried_are_never_shown_twice_or_in_vain(self, harness: StoreHarness) -> None:
        submit(harness, "gone", *[NewDocument(f"gone {n}.txt") for n in range(1_000)])
        stays = submit(harness, "stays", *[NewDocument(f"stays {n}.txt") for n in range(1_000)])
        submit(harness, "stays", *[NewDocument("tail.txt") for n in range(500)])
        index_all(harness)
        harness.store.cancel(stays[:1], ANNA)
        harness.store.retry(stays[:1], ANNA)
        assert names_of(harness, "stays 0") == ["stays 0.txt"]
        harness.store.purge("gone", ANNA)
        assert harness.store.search("gone", limit=10).documents == ()
        while harness.store.clean_index(limit=1):
            pass
        assert harness.store.search("gone", limit=10).documents == ()
        assert names_of(harness, "stays 99") == [f"stays {n}.txt" for n in (*range(999, 989, -1), 99)]

    @guarantee("S57")
    def test_lists_of_a_range_of_time_are_the_same(self, harness: StoreHarness) -> None:
        for n in range(5):
            harness.queue.submit(f"c{n}", [NewDocument("a document")] * 1_000, now=START + n)
        index_all(harness)
        moved = harness.store.documents(harness.in_range(START + 1, START + 2), limit=1).items[0].id
        harness.store.cancel([moved], ANNA)
        harness.store.retry([moved], ANNA, now=START + 9)
        for n in range(5):
            where = harness.in_range(START + n, START + n + 1)
            assert sum(harness.store.counts(where).states.values()) == 1_000
            newest = harness.store.documents(where, limit=2_000).items
            assert {document.submitted_at for document in newest} == {START + n}
            assert len(newest) == 1_000
        assert harness.store.documents(harness.in_range(START + 1, START + 2), limit=1).items[0].id == moved
        assert harness.store.documents(harness.in_range(START + 7, START + 8), limit=1).items == ()
