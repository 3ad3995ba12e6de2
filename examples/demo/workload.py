"""Who sends what, and when: six customers around one flood."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from demo.documents import KINDS

BINDER: Final = "binder"
"""A PDF of many pages, made by `demo.documents.make_binder`."""
MIN_BINDER_PAGES: Final = 60
"""Of a binder, at least; up to half as many more."""
SECONDS_PER_DOCUMENT: Final = 0.05
"""How long arrivals last for each document of the demo: about what two workers need for them."""
MIN_DOCUMENTS: Final = 12

FLOOD: Final = "Flood Archive"
BULK: Final = "Bulk Insurance"
DAILY: Final = ("Daily Dental", "Daily Bakery")
TRICKLE: Final = "Trickle Notary"
LATE: Final = "Late Clinic"
CUSTOMERS: Final = (FLOOD, BULK, *DAILY, TRICKLE, LATE)
DAILY_BATCH_SIZE: Final = 4
"""How many documents an ordinary customer sends at a time."""


class PlannedSubmission(NamedTuple):
    """One document to come: when (seconds from the start), whose, of which kind, made from which seed."""

    at: float
    customer: str
    kind: str
    seed: int


def plan_submissions(documents: int) -> list[PlannedSubmission]:
    """All that comes, in order: the same every time for the same number of documents."""
    over = documents * SECONDS_PER_DOCUMENT
    times = sorted((at * over, customer) for at, customer in _arrival_fractions(documents))
    sent = dict.fromkeys(CUSTOMERS, 0)
    result = []
    for number, (at, customer) in enumerate(times):
        result.append(PlannedSubmission(at, customer, _kind(customer, sent[customer]), number))
        sent[customer] += 1
    return result


def _arrival_fractions(documents: int) -> Iterator[tuple[float, str]]:
    """When each document comes, as a part of the whole time, and whose it is; the flood is whatever is left."""
    bulk, daily, trickle, late = (max(1, round(documents * part)) for part in (0.25, 0.06, 0.05, 0.02))
    yield from ((0.0, FLOOD) for _ in range(documents - bulk - 2 * daily - trickle - late))
    yield from ((0.2, BULK) for _ in range(bulk))
    yield from ((0.45, LATE) for _ in range(late))
    yield from ((0.02 + 0.96 * n / trickle, TRICKLE) for n in range(trickle))
    for customer, offset in zip(DAILY, (0.04, 0.1), strict=True):
        yield from (
            (offset + 0.88 * (n // DAILY_BATCH_SIZE) * DAILY_BATCH_SIZE / daily, customer) for n in range(daily)
        )


def _kind(customer: str, number: int) -> str:
    """Bulk comes in binders with something else in between; the others send a bit of everything."""
    if customer in (FLOOD, BULK) and number % 8 != 7:
        return BINDER
    return KINDS[(number // 8 if customer in (FLOOD, BULK) else number + CUSTOMERS.index(customer)) % len(KINDS)]
