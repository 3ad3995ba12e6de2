"""Separate documents that a worker's slots process from those that the worker has claimed ahead."""

from collections.abc import Sequence
from typing import Final

from inturn.insights.views import AtWork
from inturn.model import Document
from inturn.store_answers import RunningClaim
from inturn.store_types import WORKER_TIMEOUT
from inturn.values import SECOND
from inturn.worker_report import Worker

REPORT_DELAY: Final = 2 * SECOND
"""A report may lack claims of this long before it: it is built before it is written."""


def begun_at(worker: Worker, held: Sequence[Document] | Sequence[RunningClaim]) -> dict[str, int]:
    """Return when the slots of a worker began its documents, by id; claims ahead are left out.

    Those in its report come first, then claims since the report, up to its slots.
    """
    report, seen_at, _ = worker
    reported = report.at_work or {}
    begun = {
        claim.id: max(claim.started_at or 0, seen_at - reported[claim.id]) for claim in held if claim.id in reported
    }
    since = [claim for claim in held if claim.id not in reported and _may_be_at_work(claim, worker)]
    since.sort(key=lambda claim: claim.fence or 0)
    return begun | {claim.id: claim.started_at or 0 for claim in since[: max(0, report.slots - len(begun))]}


def is_silent(worker: Worker, now: int) -> bool:
    """Return whether a worker has not reported for so long that it counts as gone."""
    return abs(now - worker.seen_at) > WORKER_TIMEOUT


def at_work(worker: Worker, held: Sequence[Document]) -> AtWork:
    """Return a worker's documents at work, with the times at which its slots began them."""
    documents = {document.id: document for document in held}
    begun = [documents[id_]._replace(began_at=at) for id_, at in begun_at(worker, held).items()]
    return AtWork(worker, tuple(begun), len(held) - len(begun))


def _may_be_at_work(claim: Document | RunningClaim, worker: Worker) -> bool:
    """Return whether the report may lack a document: claimed since, or the worker reports no documents at all."""
    return worker.report.at_work is None or (claim.started_at or 0) > worker.seen_at - REPORT_DELAY
