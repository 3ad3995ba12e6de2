"""`inturn doctor`: whether the counts agree with the documents, and what this machine has for its workers."""

import io
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

import typer

from inturn.cli.output import Column, print_facts, print_table
from inturn.cli.probe import kreuzberg_version, ocr_languages, sandbox_layers
from inturn.cli.session import Session, is_missing_folder
from inturn.cli.watch import SILENT_AFTER
from inturn.errors import InturnError
from inturn.i18n import Texts
from inturn.model import SECOND
from inturn.policy.costs import LEAST_TO_FIT, Fit
from inturn.store import Discrepancy

TRIAL: Final = b"inturn doctor"


class BlobsHealth(NamedTuple):
    """Where documents' bytes are, whether anything is there yet, and what is wrong with it."""

    url: str | None
    is_there: bool
    trouble: str | None


class Health(NamedTuple):
    """What workers find on this machine and in this queue."""

    sandbox: str
    kreuzberg: str | None
    ocr: list[str]
    blobs: BlobsHealth
    workers: int
    costs: Fit | None


def doctor(
    session: Session,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Set wrong counts right.")] = False,
) -> None:
    """Compare every kept count with the documents, and look at what workers need. Ends with 1 if anything is wrong."""
    store = session.queue.store
    found = store.recount(repair=repair)
    left = store.recount(repair=False) if repair and found else found
    health = _health(session)
    if session.as_json:
        for each in found:
            session.emit({**each._asdict(), "repaired": repair and each not in left})
        session.emit({"found": len(found), "left": len(left), **_record(health)})
    else:
        _tell_counts(session, found, left)
        print_facts(session.console, _facts(health, session.texts))
    if left or health.blobs.trouble is not None:
        raise typer.Exit(1)


def _health(session: Session) -> Health:
    newest = time.time() * SECOND - SILENT_AFTER
    workers = sum(each.seen_at >= newest for each in session.queue.store.workers())
    blobs = _look_at_blobs(session)
    return Health(
        sandbox_layers(), kreuzberg_version(), ocr_languages(), blobs, workers, session.insights.measured_costs()
    )


def _look_at_blobs(session: Session) -> BlobsHealth:
    """Put something there and take it away again. A folder that is missing is not made."""
    url = session.settings.blobs
    if url is None or is_missing_folder(url):
        return BlobsHealth(url, is_there=False, trouble=None)
    try:
        blobs = session.must_have_blobs()
        blob = blobs.put(io.BytesIO(TRIAL))
        blobs.check(blob.key, blob.sha256)
        blobs.delete([blob.key])
    except InturnError as wrong:
        return BlobsHealth(url, is_there=True, trouble=str(wrong))
    return BlobsHealth(url, is_there=True, trouble=None)


def _record(health: Health) -> dict[str, Any]:
    per_document, per_page = (None, None) if health.costs is None else health.costs.costs()
    return {
        **health._asdict(),
        "blobs": {"url": health.blobs.url, "there": health.blobs.is_there, "trouble": health.blobs.trouble},
        "costs": None if health.costs is None else health.costs._asdict(),
        "per_document": per_document,
        "per_page": per_page,
    }


def _facts(health: Health, texts: Texts) -> Iterator[tuple[str, str]]:
    yield texts.text("label_sandbox"), health.sandbox
    version = health.kreuzberg
    extract = texts.text("extract_missing") if version is None else texts.text("extract_there", version=version)
    yield texts.text("label_extract"), extract
    languages = ", ".join(health.ocr)
    yield (
        texts.text("label_ocr"),
        texts.text("ocr_there", languages=languages) if languages else texts.text("ocr_missing"),
    )
    yield texts.text("label_blobs"), _blobs_in_words(health.blobs, texts)
    workers = texts.text("workers_seen", n=health.workers) if health.workers else texts.text("no_worker")
    yield texts.text("label_workers"), workers
    yield from _costs_in_words(health.costs, texts)


def _blobs_in_words(blobs: BlobsHealth, texts: Texts) -> str:
    if blobs.url is None:
        return texts.text("blobs_none")
    if not blobs.is_there:
        return texts.text("blobs_missing", url=blobs.url)
    return blobs.trouble or texts.text("blobs_fine", url=blobs.url)


def _costs_in_words(fit: Fit | None, texts: Texts) -> Iterator[tuple[str, str]]:
    """What was measured, and the line to type if pages shall count."""
    if fit is None:
        yield texts.text("label_costs"), texts.text("costs_unknown", fewest=LEAST_TO_FIT)
        return
    told = {"per_document": round(fit.per_document, 4), "per_page": round(fit.per_page, 4)}
    yield texts.text("label_costs"), texts.text("costs_fit", n=fit.documents, **told)
    per_document, per_page = (round(each, 4) for each in fit.costs())
    if per_page:
        command = f"inturn policy set --per-document {per_document:g} --per-page {per_page:g}"
        yield texts.text("label_costs_set"), command


def _tell_counts(session: Session, found: tuple[Discrepancy, ...], left: tuple[Discrepancy, ...]) -> None:
    if not found:
        session.say("doctor_fine")
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_customer"), folds=True),
        Column(texts.text("head_what"), folds=True),
        Column(texts.text("head_kept"), number=True),
        Column(texts.text("head_counted"), number=True),
    ]
    rows = [(each.customer, each.what, texts.number(each.kept), texts.number(each.counted)) for each in found]
    print_table(session.console, columns, rows)
    session.say("doctor_found", n=len(found))
    session.say("doctor_left" if left else "doctor_repaired", n=len(left))
