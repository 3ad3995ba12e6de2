"""What callers are shown of what is kept: a customer sees its own, rounded where it would tell of others."""

from inturn.http import schemas
from inturn.http.auth import Caller
from inturn.i18n import LANGUAGES, SOURCE, Texts
from inturn.insights import CounterNow, Life, Moment, Why
from inturn.model import Document, Progress
from inturn.prose import told, told_to_customer
from inturn.store import Event, PolicyVersion


def document_view(document: Document, caller: Caller) -> schemas.Document:
    """A document; who works at it, and the trace of an error, are for operators."""
    given = document.given
    return schemas.Document.model_construct(
        id=document.id,
        customer=document.customer,
        name=given.name,
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
        max_attempts=given.max_attempts,
        error=_error_for(document.error, caller),
        uri=given.uri,
        size=given.size,
        sha256=given.sha256,
        media_type=given.media_type,
        pages=given.pages,
        batch=given.batch,
        cost=given.cost,
        start_by=given.start_by,
        metadata=dict(given.metadata),
        worker=document.worker if caller.sees_all else None,
    )


def why_view(why: Why, caller: Caller, texts: Texts) -> schemas.Why:
    """Why a document waits."""
    place, ahead = why.place, None
    if caller.sees_all:
        sentence = " ".join(f"{label}: {words.removesuffix('.')}." for label, words in told(why, texts))
        ahead = None if why.before is None else schemas.Ahead(**why.before._asdict())
    else:
        place = None if place is None else rounded(place)
        sentence = " ".join(told_to_customer(why, texts, place))
    document = why.document
    return schemas.Why.model_construct(
        id=document.id,
        at=why.at,
        state=str(document.state),
        level=document.level,
        count=document.count,
        bounds=None if why.bounds is None else schemas.Bounds(**why.bounds._asdict()),
        counter=counter_view(why.counter),
        closed_by=[str(each) for each in why.closed_by],
        place=place,
        ahead=ahead,
        no_place=None if why.no_place is None else str(why.no_place),
        start=None if why.start is None else schemas.Span(**why.start._asdict()),
        no_start=None if why.no_start is None else str(why.no_start),
        sentence=sentence,
    )


def life_view(document: Document, life: Life, progress: Progress | None, caller: Caller) -> schemas.Life:
    """What happened to a document."""
    moments = [_moment_view(each, caller) for each in life.moments]
    done = None if progress is None or not progress.total else min(1.0, progress.done / progress.total)
    return schemas.Life(id=document.id, moments=moments, is_whole=life.is_whole, done=done)


def _moment_view(moment: Moment, caller: Caller) -> schemas.Moment:
    """Who did something by hand, and why, and who worked at it, is for operators."""
    who = moment.operator if caller.sees_all else None
    return schemas.Moment(
        at=moment.at,
        kind=str(moment.kind),
        attempt=moment.attempt,
        error=_error_for(moment.error, caller),
        worker=moment.worker if caller.sees_all else None,
        operator=None if who is None else who.name,
        why=None if who is None else who.why,
    )


def _error_for(error: str | None, caller: Caller) -> str | None:
    return error if caller.sees_all or error is None else error.partition("\n")[0]


def counter_view(counter: CounterNow | None) -> schemas.Counter | None:
    """A counter."""
    return None if counter is None else schemas.Counter(**counter._asdict())


def rounded(place: int) -> int:
    """Up to the next of 0, 1, 2, 5, 10, 20, 50, 100 and so on."""
    if place <= 0:
        return 0
    size = 1
    while True:
        for step in (1, 2, 5):
            if place <= step * size:
                return step * size
        size *= 10


def policy_view(version: PolicyVersion) -> schemas.PolicyVersion:
    """A version of the policy."""
    return schemas.PolicyVersion(
        version=version.number,
        at=version.at,
        operator=version.operator.name,
        why=version.operator.why,
        policy=schemas.Policy(**version.policy.plain()),
    )


def audit_view(event: Event) -> schemas.AuditEvent:
    """An event that somebody caused."""
    who = event.operator
    return schemas.AuditEvent(
        number=event.number,
        at=event.at,
        kind=str(event.kind),
        operator="" if who is None else who.name,
        why="" if who is None else who.why,
        customer=event.customer,
        documents=list(event.documents),
        detail=dict(event.detail),
    )


def language_of(header: str | None) -> str:
    """The language of ours that an Accept-Language header likes best."""
    best, liked = SOURCE, 0.0
    for each in (header or "")[:500].split(","):
        tag, _, quality = each.partition(";")
        base = tag.strip().partition("-")[0].lower()
        try:
            weight = float(quality.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        if base in LANGUAGES and weight > liked:
            best, liked = base, weight
    return best
