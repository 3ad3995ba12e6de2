"""`inturn doctor`: recount the queue, and check what workers need on this machine."""

import io
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from inturn.blobs import Blobs, local_folder
from inturn.cli.durations import DAY
from inturn.cli.host_checks import kreuzberg_version, ocr_languages, sandbox_layers
from inturn.cli.missing_files import MissingFiles, describe_missing, find_missing
from inturn.cli.output import Column, print_details, print_table
from inturn.cli.session import Session, is_missing_folder
from inturn.cli.wait import count_live_workers
from inturn.errors import InturnError
from inturn.files import FILE_MODE, FOLDER_MODE, PermissiveFile, permissive_files
from inturn.i18n import Texts
from inturn.policy import Order, TurnPolicy
from inturn.policy.costs import MIN_FIT_DOCUMENTS, CostFit
from inturn.sandbox.privileges import is_root
from inturn.store_answers import AheadOfClock, Discrepancy, MaintenanceRecord
from inturn.stores import store_files

PROBE_CONTENT: Final = b"inturn doctor"
FORCE_COMMAND: Final = "inturn maintenance --once --force"


class BlobsHealth(NamedTuple):
    """The blob store's address, whether it exists, and its error if it cannot be used."""

    url: str | None
    is_there: bool
    error: str | None


class Health(NamedTuple):
    """The checks of this machine and this queue."""

    sandbox: str
    root: bool
    """Whether this command runs as root, as a worker started the same way would."""
    kreuzberg: str | None
    ocr: list[str]
    blobs: BlobsHealth
    missing_files: MissingFiles
    workers: int
    costs: CostFit | None
    turns: TurnPolicy
    wide_files: list[PermissiveFile]
    ahead: AheadOfClock
    maintenance: MaintenanceRecord | None

    @property
    def is_refused(self) -> bool:
        """Whether the last maintenance round deleted nothing because its clock may be wrong."""
        return self.maintenance is not None and self.maintenance.refused_at is not None


def doctor(
    session: Session,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Correct wrong counts.")] = False,
) -> None:
    """Check the counts, the files and what workers need.

    Compares every stored count with the documents. Ends with 1 if anything is wrong.
    """
    wide = _wide_files(session)  # before opening the store, which creates temporary files
    queue = session.queue
    discrepancies = queue.recount(repair=repair)
    left = queue.recount(repair=False) if repair and discrepancies else discrepancies
    health = _health(session, wide)
    if session.as_json:
        for discrepancy in discrepancies:
            session.emit({**discrepancy._asdict(), "repaired": repair and discrepancy not in left})
        session.emit({"found": len(discrepancies), "left": len(left), **_record(health)})
    else:
        _print_discrepancies(session, discrepancies, left)
        print_details(session.console, _describe_health(health, session.texts))
    if left or health.blobs.error is not None or health.missing_files.missing or health.is_refused:
        raise typer.Exit(1)


def _health(session: Session, wide: list[PermissiveFile]) -> Health:
    blobs = _check_blobs(session)
    return Health(
        sandbox_layers(),
        is_root(),
        kreuzberg_version(),
        ocr_languages(),
        blobs,
        find_missing(session.queue, _open_blobs(session), is_configured=session.settings.blobs is not None),
        count_live_workers(session),
        session.insights.measured_costs(),
        session.queue.policy().policy.turns,
        wide,
        session.queue.ahead_of_clock(),
        session.queue.last_maintenance(),
    )


def _wide_files(session: Session) -> list[PermissiveFile]:
    """List the store's files and the blobs' folder that other users can access."""
    url = session.settings.blobs
    folder = None if url is None else local_folder(url)
    return permissive_files([*store_files(session.settings.store), *([] if folder is None else [folder])])


def _check_blobs(session: Session) -> BlobsHealth:
    """Write, read and delete a blob. A missing folder is not created."""
    url = session.settings.blobs
    if url is None or is_missing_folder(url):
        return BlobsHealth(url, is_there=False, error=None)
    try:
        blobs = session.require_blobs()
        blob = blobs.put(io.BytesIO(PROBE_CONTENT))
        blobs.check(blob.key, blob.sha256)
        blobs.delete([blob.key])
    except InturnError as error:
        return BlobsHealth(url, is_there=True, error=str(error))
    return BlobsHealth(url, is_there=True, error=None)


def _open_blobs(session: Session) -> Blobs | None:
    """Open the blob store; None if that fails, which `_check_blobs` reports."""
    try:
        return session.blobs()
    except InturnError:
        return None


def _record(health: Health) -> dict[str, Any]:
    per_document, per_page = (None, None) if health.costs is None else health.costs.costs()
    return {
        **health._asdict(),
        "blobs": {"url": health.blobs.url, "there": health.blobs.is_there, "trouble": health.blobs.error},
        "missing_files": {**health.missing_files._asdict(), "missing": health.missing_files.missing},
        "costs": None if health.costs is None else health.costs._asdict(),
        "per_document": per_document,
        "per_page": per_page,
        "turns": {"order": str(health.turns.order), "charge": str(health.turns.charge)},
        "ahead": health.ahead._asdict(),
        "maintenance": None if health.maintenance is None else health.maintenance._asdict(),
        "wide_files": [
            {"path": str(path), "mode": f"{mode:o}", "command": _chmod(path, is_folder=is_folder)}
            for path, mode, is_folder in health.wide_files
        ],
    }


def _describe_health(health: Health, texts: Texts) -> Iterator[tuple[str, str]]:
    root = f". {texts.text('sandbox_root')}" if health.root else ""
    yield texts.text("label_sandbox"), f"{health.sandbox}{root}"
    version = health.kreuzberg
    extract = texts.text("extract_missing") if version is None else texts.text("extract_there", version=version)
    yield texts.text("label_extract"), extract
    languages = ", ".join(health.ocr)
    yield (
        texts.text("label_ocr"),
        texts.text("ocr_there", languages=languages) if languages else texts.text("ocr_missing"),
    )
    yield texts.text("label_blobs"), _describe_blobs(health.blobs, texts)
    yield from describe_missing(health.missing_files, texts)
    for path, mode, is_folder in health.wide_files:
        command = _chmod(path, is_folder=is_folder)
        yield texts.text("label_rights"), texts.text("rights_wide", path=path, mode=f"{mode:o}", command=command)
    if any(health.ahead):
        yield texts.text("label_clock"), texts.text("clock_ahead", **health.ahead._asdict())
    yield from _describe_refusal(health.maintenance, texts)
    workers = texts.text("workers_seen", n=health.workers) if health.workers else texts.text("no_worker")
    yield texts.text("label_workers"), workers
    yield from _describe_costs(health.costs, health.turns, texts)
    if health.turns.order is Order.FAIR and not health.turns.charges_time:
        yield texts.text("label_time_set"), "inturn policy set --cost time"


def _chmod(path: Path, *, is_folder: bool) -> str:
    return shlex.join(["chmod", f"{FOLDER_MODE if is_folder else FILE_MODE:o}", str(path)])


def _describe_refusal(record: MaintenanceRecord | None, texts: Texts) -> Iterator[tuple[str, str]]:
    if record is not None and record.refused_at is not None:
        when, days = texts.time(record.refused_at), round(abs(record.drift or 0) / DAY, 1)
        values = {
            "when": when,
            "days": days,
            "old": record.old or 0,
            "ended": record.ended or 0,
            "command": FORCE_COMMAND,
        }
        yield texts.text("label_retention"), texts.text("retention_refused", n=1, **values)


def _describe_blobs(blobs: BlobsHealth, texts: Texts) -> str:
    if blobs.url is None:
        return texts.text("blobs_none")
    if not blobs.is_there:
        return texts.text("blobs_missing", url=blobs.url)
    return blobs.error or texts.text("blobs_fine", url=blobs.url)


def _describe_costs(fit: CostFit | None, turns: TurnPolicy, texts: Texts) -> Iterator[tuple[str, str]]:
    """Describe the measured costs, with the commands that use them."""
    if fit is None:
        yield texts.text("label_costs"), texts.text("costs_unknown", fewest=MIN_FIT_DOCUMENTS)
        return
    measured = {"per_document": round(fit.per_document, 4), "per_page": round(fit.per_page, 4)}
    yield texts.text("label_costs"), texts.text("costs_fit", n=fit.documents, **measured)
    per_document, per_page = (round(cost, 4) for cost in fit.costs())
    if per_page:
        settings = f"--per-document {per_document:g} --per-page {per_page:g}"
        if turns.charges_time:
            yield texts.text("label_costs_estimate"), f"inturn policy set {settings}"
        else:
            yield texts.text("label_costs_set"), f"inturn policy set --cost pages {settings}"


def _print_discrepancies(
    session: Session, discrepancies: tuple[Discrepancy, ...], remaining: tuple[Discrepancy, ...]
) -> None:
    if not discrepancies:
        session.print_text("doctor_fine")
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_customer"), folds=True),
        Column(texts.text("head_what"), folds=True),
        Column(texts.text("head_kept"), number=True),
        Column(texts.text("head_counted"), number=True),
    ]
    rows = [
        (discrepancy.customer, discrepancy.what, texts.number(discrepancy.kept), texts.number(discrepancy.counted))
        for discrepancy in discrepancies
    ]
    print_table(session.console, columns, rows)
    session.print_text("doctor_found", n=len(discrepancies))
    session.print_text("doctor_left" if remaining else "doctor_repaired", n=len(remaining))
