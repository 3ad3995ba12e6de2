"""Serialize documents, explanations, policies and audit events for a caller.

Customers get rounded positions, and neither workers nor operators.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inturn.forms import parse_form
from inturn.http import schemas
from inturn.http.auth import Caller
from inturn.human_steps import person_worker
from inturn.i18n import LANGUAGES, SOURCE, Texts
from inturn.insights import CounterStatus, CustomerShare, StepSpan, Timeline, TimelineEntry, Why
from inturn.insights.explain import explain, explain_to_customer, held_tenths
from inturn.model import Document, QueueStatus, ResultFile
from inturn.queue_reader import QueueReader
from inturn.store_types import Event, Operator, PolicyVersion
from inturn.values import SECOND
from inturn.worker.content import own_files
from inturn.worker_report import Progress


def serialize_document(document: Document, caller: Caller) -> schemas.Document:
    """Serialize a document; its worker and the traceback of its error are for operators."""
    spec = document.spec
    return schemas.Document.model_construct(
        id=document.id,
        customer=document.customer,
        name=spec.name,
        state=str(document.state),
        level=document.level,
        count=document.count,
        expedited=document.expedited,
        submitted_at=document.submitted_at,
        ready_at=document.ready_at,
        due_at=document.due_at,
        started_at=document.started_at,
        began_at=document.began_at,
        worked=document.worked,
        finished_at=document.finished_at,
        attempt=document.attempt,
        max_attempts=spec.max_attempts,
        error=visible_error(document.error, caller),
        uri=spec.uri,
        has_content=spec.blob is not None,
        size=spec.size,
        sha256=spec.sha256,
        media_type=spec.media_type,
        pages=spec.pages,
        batch=spec.batch,
        group=spec.group,
        queue=document.queue,
        step=document.step,
        steps=list(spec.steps),
        ahead=list(document.ahead),
        parent=document.parent,
        part=document.part,
        cost=spec.cost,
        start_by=spec.start_by,
        metadata=dict(spec.metadata),
        worker=document.worker if caller.sees_all else None,
    )


def serialize_files(files: Sequence[ResultFile]) -> list[schemas.ResultFile]:
    """Serialize the files that a processor returned."""
    return [
        schemas.ResultFile(name=file.name, size=file.size, sha256=file.sha256, media_type=file.media_type)
        for file in own_files(files)
    ]


def object_with_result(envelope: Mapping[str, Any], result: str) -> str:
    """Return a JSON object with a stored result as it is: unparsed, so that deep nesting does no harm."""
    fields = {name: json.dumps(value) for name, value in envelope.items()} | {"result": result}
    return "{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}"


def serialize_why(why: Why, caller: Caller, texts: Texts, share: CustomerShare | None) -> schemas.Why:
    """Serialize the explanation of a document's position; the share of its customer is for operators."""
    place, ahead = why.place, None
    if caller.sees_all:
        sentence = " ".join(f"{label}: {words.removesuffix('.')}." for label, words in explain(why, texts, share))
        ahead = None if why.ahead is None else schemas.Ahead(**why.ahead._asdict())
    else:
        place = None if place is None else round_up_position(place)
        sentence = " ".join(explain_to_customer(why, texts, place))
    document = why.document
    return schemas.Why.model_construct(
        id=document.id,
        queue=document.queue,
        at=why.at,
        state=str(document.state),
        level=document.level,
        count=document.count,
        bounds=None if why.bounds is None else schemas.Bounds(**why.bounds._asdict()),
        counter=serialize_counter(why.counter),
        closed_by=[str(closed_by) for closed_by in why.closed_by],
        unended_parts=why.unended_parts,
        place=place,
        ahead=ahead,
        no_place=None if why.no_place is None else str(why.no_place),
        start=None if why.start is None else schemas.Span(**why.start._asdict()),
        start_held=held_tenths(why.held),
        no_start=None if why.no_start is None else str(why.no_start),
        slot_use=schemas.SlotUse(**why.slot_use._asdict()) if why.slot_use is not None and caller.sees_all else None,
        share=serialize_share(share) if caller.sees_all else None,
        sentence=sentence,
    )


def serialize_timeline(
    document: Document, timeline: Timeline, progress: Progress | None, caller: Caller
) -> schemas.Timeline:
    """Serialize a timeline with the progress of the processor."""
    moments = [_serialize_timeline_entry(entry, caller) for entry in timeline.entries]
    done = None if progress is None or not progress.total else min(1.0, progress.done / progress.total)
    steps = [_serialize_step(span) for span in timeline.steps]
    return schemas.Timeline(id=document.id, moments=moments, steps=steps, is_whole=timeline.is_complete, done=done)


def _serialize_step(span: StepSpan) -> schemas.TimelineStep:
    parts = None if span.parts is None else schemas.WaitForParts(**span.parts._asdict())
    return schemas.TimelineStep(**{**span._asdict(), "parts": parts})


def _serialize_timeline_entry(entry: TimelineEntry, caller: Caller) -> schemas.TimelineEntry:
    """Operators and workers are for callers that see all."""
    operator = entry.operator if caller.sees_all else None
    return schemas.TimelineEntry(
        at=entry.at,
        kind=str(entry.kind),
        attempt=entry.attempt,
        error=visible_error(entry.error, caller),
        queue=entry.queue,
        step=entry.step,
        worker=entry.worker if caller.sees_all else None,
        operator=None if operator is None else operator.name,
        why=None if operator is None else operator.why,
    )


def visible_error(error: str | None, caller: Caller) -> str | None:
    """Return an error as the caller may see it: its first line, for a customer."""
    return error if caller.sees_all or error is None else error.partition("\n")[0]


def serialize_counter(counter: CounterStatus | None) -> schemas.Counter | None:
    """Serialize a counter."""
    return None if counter is None else schemas.Counter(**counter._asdict())


def serialize_share(share: CustomerShare | None) -> schemas.Share:
    """Serialize a customer's share; None if workers did nothing."""
    if share is None:
        return schemas.Share(received=None, due=None, worker_seconds=0.0, documents=0, is_over=False)
    return schemas.Share(
        received=share.received,
        due=share.due,
        worker_seconds=share.worked / SECOND,
        documents=share.documents,
        is_over=share.is_over,
    )


def round_up_position(position: int) -> int:
    """Round up to 0, 1, 2, 5, 10, 20, 50, 100 and so on, so that a customer cannot count other documents."""
    if position <= 0:
        return 0
    size = 1
    while True:
        for step in (1, 2, 5):
            if position <= step * size:
                return step * size
        size *= 10


def serialize_policy_version(version: PolicyVersion) -> schemas.PolicyVersion:
    """Serialize a version of the policy."""
    return schemas.PolicyVersion(
        version=version.number,
        at=version.at,
        operator=version.operator.name,
        why=version.operator.why,
        policy=schemas.Policy(**version.policy.to_dict()),
    )


def serialize_audit_event(event: Event) -> schemas.AuditEvent:
    """Serialize an event of the audit log."""
    operator = event.operator
    return schemas.AuditEvent(
        number=event.number,
        at=event.at,
        kind=str(event.kind),
        operator="" if operator is None else operator.name,
        why="" if operator is None else operator.why,
        customer=event.customer,
        documents=list(event.documents),
        detail=dict(event.detail),
    )


def negotiate_language(header: str | None) -> str:
    """Choose the supported language with the highest weight in an Accept-Language header."""
    best, best_weight = SOURCE, 0.0
    for part in (header or "")[:500].split(","):
        tag, _, quality = part.partition(";")
        base = tag.strip().partition("-")[0].lower()
        try:
            weight = float(quality.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        if base in LANGUAGES and weight > best_weight:
            best, best_weight = base, weight
    return best


def serialize_operator(operator: Operator | None) -> schemas.Paused | None:
    """Serialize the operator who paused something."""
    return None if operator is None else schemas.Paused(operator=operator.name, why=operator.why)


def serialize_queue(status: QueueStatus, queue: QueueReader) -> schemas.NamedQueue:
    """Serialize a queue with its settings and its pause."""
    settings = status.settings
    return schemas.NamedQueue(
        name=status.name,
        description=settings.description,
        weight=settings.weight,
        cap=settings.cap,
        rate=None if settings.rate is None else schemas.Rate(**settings.rate._asdict()),
        manual=settings.manual,
        form=serialize_form(settings.form),
        paused=serialize_operator(queue.paused(status.name)) if status.paused else None,
        waiting=status.waiting,
        running=status.running,
    )


def serialize_form(text: str | None) -> list[schemas.FormField] | None:
    """Serialize a queue's form."""
    return None if text is None else [schemas.FormField(**field.to_dict()) for field in parse_form(text)]


def serialize_taken(document: Document, caller: Caller) -> schemas.TakenDocument:
    """Serialize a document that is taken; its fence is for the person who has it."""
    is_own = document.worker == person_worker(caller.name)
    return schemas.TakenDocument(
        document=serialize_document(document, caller),
        worker=document.worker or "",
        lease_until=document.lease_until or 0,
        fence=document.fence if is_own else None,
    )
