"""Groups of lanes in PostgreSQL: what a claim reads does not grow with what waits in other groups."""

from typing import Any

import pytest

from inturn import NewDocument, Queue
from inturn.stores.postgres import PostgresStore
from inturn.stores.postgres.queries import QUERIES, encode_params
from services import needs_postgres

pytestmark = needs_postgres
GROUPS = 2_000
MAX_BLOCKS = 20
"""With all of a customer's documents it would be 40 of their index alone, and twice as many of their rows."""
LAST_OF_A_GROUP: dict[str, Any] = {
    "customer": [1],
    "level": [19],
    "after": [4 * GROUPS + 21],
    "scan_from": [1],
    "limit": 2,
}
"""From behind the fourth of the five documents of group 0; each group has one in 2,000."""


@pytest.mark.parametrize(
    ("query", "values"),
    [("first_lanes", {"limit": 1, "more": 1, "queue": "default"}), ("waiting_in_lanes", LAST_OF_A_GROUP)],
)
def test_a_claim_reads_no_documents_of_other_lanes(store: PostgresStore, query: str, values: dict[str, Any]) -> None:
    """An index scan by rows of (customer, lane, seq) goes on to the customer's end, unless its limit ends it before."""
    queue = Queue(store)
    queue.submit("acme", [NewDocument("x")] * 21)  # the levels above
    for first in range(0, 5 * GROUPS, 1_000):
        names = [f"group {n % GROUPS}" for n in range(first, first + 1_000)]
        queue.submit("acme", [NewDocument("x", group=name) for name in names])
    assert len(queue.claim("worker", 22)) == 22
    explain = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + QUERIES[query]
    for _ in range(2):  # the first time reads the catalog too
        ((result,),) = store._database.run_claim(  # noqa: SLF001 - its plan under the settings of a claim
            lambda queries: queries.connection.execute(explain, encode_params(values)).fetchall()
        )
    plan = result[0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= MAX_BLOCKS
