"""The index of searches on PostgreSQL."""

from typing import Any

import psycopg

from inturn import Queue
from inturn.model import NewDocument
from inturn.stores.postgres import PostgresStore


def test_a_dump_that_is_restored_on_another_server_is_indexed_on(
    store: PostgresStore, admin: psycopg.Connection[tuple[Any, ...]]
) -> None:
    """The transaction ids of the server that it comes from may be far ahead."""
    queue = Queue(store)
    for n in range(3):
        queue.submit("acme", [NewDocument(f"file {n}.txt")] * 1_000)
    admin.execute("UPDATE search_progress SET bound = 3000, bound_xmax = '900000000000'")
    for _ in range(
        100
    ):  # a bound is used once all transactions that were open have ended: other tests share the server
        if queue.index_documents(limit=1_000):
            break
    assert admin.execute("SELECT next_chunk FROM search_progress").fetchone() == (1,)
    assert [document.spec.name for document in queue.search("file 0", limit=1).documents] == ["file 0.txt"]
