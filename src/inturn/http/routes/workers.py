"""Serve `/v1/workers` to operators: what workers do, and which of them take documents."""

from typing import Final

from fastapi import APIRouter

from inturn.http import schemas
from inturn.http.auth import OperatorAccess
from inturn.http.errors import ErrorResponses
from inturn.http.scope import CallerScope, ReadScope, WriteScope
from inturn.insights import AtWork, is_silent
from inturn.model import Document
from inturn.worker_report import Progress

router: Final = APIRouter(prefix="/v1", tags=["operators"])
MAX_DOCUMENTS_PER_WORKER: Final = 100


@router.get("/workers", operation_id="listWorkers", responses=ErrorResponses.of())
def list_workers(scope: ReadScope, _: OperatorAccess) -> schemas.Workers:
    """Operators: list workers as they last reported, with the documents that their slots process."""
    return _serialize_workers(scope)


@router.post("/workers/{name:path}/pause", operation_id="pauseWorker", responses=ErrorResponses.of(422))
def pause_worker(name: str, scope: WriteScope, _: OperatorAccess) -> schemas.Workers:
    """Operators: let a worker take no more documents. It finishes what it has; a restart ends the pause."""
    scope.app_state.queue.pause_worker(name, scope.operator)
    return _serialize_workers(scope)


@router.post("/workers/{name:path}/resume", operation_id="resumeWorker", responses=ErrorResponses.of(422))
def resume_worker(name: str, scope: WriteScope, _: OperatorAccess) -> schemas.Workers:
    """Operators: let a paused worker take documents again."""
    scope.app_state.queue.resume_worker(name, scope.operator)
    return _serialize_workers(scope)


def _serialize_workers(scope: CallerScope) -> schemas.Workers:
    app_state = scope.app_state
    now = app_state.queue.now()
    return schemas.Workers(
        at=now, workers=[_serialize_worker(activity, now) for activity in app_state.insights.at_work()]
    )


def _serialize_worker(activity: AtWork, now: int) -> schemas.Worker:
    worker = activity.worker
    report, paused = worker.report, worker.paused
    shown = activity.documents[:MAX_DOCUMENTS_PER_WORKER]
    return schemas.Worker(
        name=report.name,
        host=report.host,
        process=report.process,
        slots=report.slots,
        busy=report.busy,
        processor=report.processor,
        queues=list(report.queues),
        version=report.version,
        started_at=report.started_at,
        seen_at=worker.seen_at,
        stopping=report.stopping,
        silent=is_silent(worker, now),
        paused=None if paused is None else schemas.WorkerPause(**paused._asdict()),
        documents=[_serialize_held(document, report.progress.get(document.id)) for document in shown],
        claimed_ahead=activity.claimed_ahead,
    )


def _serialize_held(document: Document, progress: Progress | None) -> schemas.HeldDocument:
    return schemas.HeldDocument(
        id=document.id,
        name=document.spec.name,
        customer=document.customer,
        level=document.level,
        started_at=document.work_began_at,
        done=progress_part(progress),
        lease_until=document.lease_until,
        attempt=document.attempt,
        max_attempts=document.spec.max_attempts,
    )


def progress_part(progress: Progress | None) -> float | None:
    """Return reported progress as a part from 0 to 1."""
    return None if progress is None or not progress.total else min(1.0, progress.done / progress.total)
