"""Compares what lines and limits count with the documents themselves. The line changes must have been folded in."""

from inturn.model import DocumentState
from inturn.policy.turns import Head
from inturn.store import Discrepancy
from inturn.stores.sqlite.book import Book
from inturn.stores.sqlite.tables import Tables


def discrepancies(tables: Tables) -> tuple[Discrepancy, ...]:
    """Every count that does not agree, by customer and level."""
    counted = {(owner, level): n for owner, level, n, _ in tables.all("waiting_counts")}
    reached = {(owner, level): n for owner, level, n in tables.all("found_counts")}
    kept = {(owner, level): n for owner, level, n in tables.all("line_counts")}
    found = [
        Discrepancy(
            tables.name(owner),
            f"found in level {level}",
            reached.get((owner, level), 0),
            counted.get((owner, level), 0),
        )
        for owner, level in reached.keys() | counted.keys()
        if reached.get((owner, level), 0) != counted.get((owner, level), 0)
    ]
    found += [
        Discrepancy(
            tables.name(owner), f"waiting in level {level}", kept.get((owner, level), 0), counted.get((owner, level), 0)
        )
        for owner, level in kept.keys() | counted.keys()
        if kept.get((owner, level), 0) != counted.get((owner, level), 0)
    ]
    found += [
        Discrepancy(tables.name(owner), str(DocumentState.RUNNING), running, real)
        for owner, running, real in tables.all("capped_counts")
        if running != real
    ]
    return tuple(sorted(found))


def repair(tables: Tables) -> None:
    """Let each line stand on the documents it really has, and each capped customer on those that run."""
    tables.run("forget_all_returned")
    tables.run("return_all")
    counted = {(owner, level): n for owner, level, n, _ in tables.all("waiting_counts")}
    kept = {(owner, level) for owner, level, _ in tables.all("line_counts")}
    tables.forget()  # what this process remembers may be what is wrong
    book = Book.opened(tables)
    for owner, level in sorted(kept | counted.keys()):
        book.emptied(owner, level)
        if (owner, level) in counted:
            n = counted[owner, level]
            (first,) = tables.all("returned_to_line", customer=owner, level=level, first=0, limit=1)
            book.returned(owner, level, n, Head(*first))
    for owner, running, real in tables.all("capped_counts"):
        if running != real:
            customer = book.customer(owner)
            book.changed(owner, customer.settings, real)
    book.save()
