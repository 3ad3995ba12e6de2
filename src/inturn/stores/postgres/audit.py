"""Compares what lines and limits count with the documents themselves. The line changes must have been folded in."""

from inturn.model import DocumentState
from inturn.policy.turns import Head
from inturn.store import Discrepancy
from inturn.stores.postgres.book import Book
from inturn.stores.postgres.bounds import NEVER
from inturn.stores.postgres.known import Known
from inturn.stores.postgres.tables import Tables


def discrepancies(tables: Tables, known: Known) -> tuple[Discrepancy, ...]:
    """Every count that does not agree, by customer and level."""
    counted = {(owner, level): n for owner, level, n, _ in tables.all("waiting_counts")}
    reached = {(owner, level): n for owner, level, n in tables.all("found_counts")}
    kept = {(owner, level): n for owner, level, n in tables.all("line_counts")}
    capped = [row for row in tables.all("capped_counts") if row[1] != row[2]]
    wrong = [each for each in kept.keys() | counted.keys() if kept.get(each, 0) != counted.get(each, 0)]
    missed = [each for each in reached.keys() | counted.keys() if reached.get(each, 0) != counted.get(each, 0)]
    names = known.names(tables, {owner for owner, *_ in (*wrong, *missed, *capped)})
    found = [
        Discrepancy(
            names[owner], f"found in level {level}", reached.get((owner, level), 0), counted.get((owner, level), 0)
        )
        for owner, level in missed
    ]
    found += [
        Discrepancy(
            names[owner], f"waiting in level {level}", kept.get((owner, level), 0), counted.get((owner, level), 0)
        )
        for owner, level in wrong
    ]
    found += [Discrepancy(names[owner], str(DocumentState.RUNNING), running, real) for owner, running, real in capped]
    return tuple(sorted(found))


def repair(tables: Tables, book: Book) -> None:
    """Let each line stand on the documents it really has, and each capped customer on those that run."""
    tables.run("file_documents")
    counted = {(owner, level): (n, first) for owner, level, n, first in tables.all("waiting_counts")}
    kept = {(owner, level) for owner, level, _ in tables.all("line_counts")}
    for owner, level in sorted(kept | counted.keys()):
        book.emptied(owner, level)
        if (owner, level) in counted:
            n, seq = counted[owner, level]
            where = {"customer": [owner], "level": [level], "after": [seq - 1], "front": [NEVER]}
            ((_, _, *head, _),) = tables.all("waiting_in_lines", **where, limit=1)
            book.returned(owner, level, n, Head(*head))
    for owner, running, real in tables.all("capped_counts"):
        if running != real:
            book.changed(owner, book.customer(owner).settings, real)
