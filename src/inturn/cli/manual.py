"""`inturn manual`: documents of queues that people serve. Take one, and finish it, hand it back or reject it."""

from collections.abc import Iterator
from typing import Annotated, Final

import typer

from inturn.cli.json_input import read_json
from inturn.cli.json_output import document_record
from inturn.cli.output import Column, print_details, print_table
from inturn.cli.session import Session
from inturn.errors import StaleFenceError
from inturn.forms import Field, FieldKind
from inturn.human_steps import HumanSteps, person_worker
from inturn.i18n import Texts
from inturn.insights import waiting_in_order
from inturn.insights.explain import STATE_TEXT_KEYS
from inturn.model import Document, DocumentState
from inturn.store_types import DocumentFilter
from inturn.values import parse_duration

MAX_LISTED: Final = 100
QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The document's id.")]
FenceOption = Annotated[
    int | None, typer.Option("--fence", metavar="N", help="As take printed it; left out, if you have the document.")
]
LeaseOption = Annotated[
    str, typer.Option("--lease", metavar="TIME", help="How long it is reserved for you, such as 30m or 4h.")
]
DEFAULT_LEASE_TEXT: Final = "30m"


def list_(session: Session, queue: QueueArgument) -> None:
    """List what waits in a queue, in its order, and what is taken by whom."""
    name = session.queue.queue_status(queue).name
    running = DocumentFilter(frozenset({DocumentState.RUNNING}), queue=name)
    taken = session.queue.documents(running, limit=MAX_LISTED).items
    waiting = waiting_in_order(session.queue, name, limit=MAX_LISTED)
    if session.as_json:
        for document in taken:
            session.emit({**document_record(document), "place": None})
        for item in waiting:
            session.emit({**document_record(item.document), "place": item.place})
        return
    texts = session.texts
    if not taken and not waiting:
        session.print_text("manual_none", queue=name)
        return
    columns = [
        Column(texts.text("head_ahead"), number=True),
        Column(texts.text("head_document")),
        Column(texts.text("head_customer"), folds=True),
        Column(texts.text("head_name"), folds=True),
        Column(texts.text("head_worker"), folds=True),
        Column(texts.text("head_until")),
    ]
    rows = [("-", *_row(document), document.worker or "-", _until(document, texts)) for document in taken]
    rows += [
        ("-" if item.place is None else texts.number(item.place), *_row(item.document), "-", "-") for item in waiting
    ]
    print_table(session.console, columns, rows)


def take(session: Session, queue: QueueArgument, *, lease: LeaseOption = DEFAULT_LEASE_TEXT) -> None:
    """Take the next document of a queue that people serve, in the queue's order.

    It is reserved for the one who runs the command, by --by or login name.
    """
    steps = _human_steps(session)
    taken = steps.take(queue, lease=parse_duration("--lease", lease))
    if taken.claim is None:
        if session.as_json:
            session.emit({"taken": None, "waiting": taken.waiting})
        else:
            session.print_text("manual_held" if taken.waiting else "manual_none", n=taken.waiting, queue=queue)
        return
    document, fields = taken.claim.document, steps.form(queue)
    if session.as_json:
        form = [field.to_dict() for field in fields] or None
        session.emit({"taken": document_record(document), "waiting": taken.waiting, "form": form})
    else:
        print_details(session.console, _describe_taken(document, fields, session.texts))


def extend(
    session: Session, id: IdArgument, *, fence: FenceOption = None, lease: LeaseOption = DEFAULT_LEASE_TEXT
) -> None:
    """Keep a document that you have taken for longer, from now."""
    length = parse_duration("--lease", lease)
    document = _human_steps(session).extend(id, _fence(session, id, fence), lease=length)
    if session.as_json:
        session.emit(document_record(document))
    else:
        session.print_text("manual_extended", id=document.id, time=_until(document, session.texts))


def finish(
    session: Session,
    id: IdArgument,
    result: Annotated[
        str | None, typer.Argument(metavar="FILE|-", help="The result as JSON: a file, or - for the input.")
    ] = None,
    *,
    fence: FenceOption = None,
    next_: Annotated[
        str | None, typer.Option("--next", metavar="QUEUE", help="Where it goes; else to the next of its steps.")
    ] = None,
) -> None:
    """Record the result of a document that you have taken.

    It is checked against the form of the queue. Then the document goes to its next step, or is done.
    """
    value = None if result is None else read_json("the result", result)
    _print_now(session, _human_steps(session).finish(id, _fence(session, id, fence), value, to=next_))


def release(session: Session, id: IdArgument, *, fence: FenceOption = None) -> None:
    """Hand back a document that you have taken: it keeps its place."""
    _print_now(session, _human_steps(session).release(id, _fence(session, id, fence)))


def reject(
    session: Session,
    id: IdArgument,
    *,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; the customer sees it.")],
    fence: FenceOption = None,
) -> None:
    """Fail a document that you have taken for good."""
    _print_now(session, _human_steps(session).reject(id, _fence(session, id, fence), reason))


def _human_steps(session: Session) -> HumanSteps:
    return HumanSteps(session.queue, session.operator.name)


def _fence(session: Session, id_: str, fence: int | None) -> int:
    """Return the fence that was given, or that of the document if the one who runs the command has it."""
    if fence is not None:
        return fence
    document = session.queue.document(id_)
    person = person_worker(session.operator.name)
    if document.state is not DocumentState.RUNNING or document.worker != person or document.fence is None:
        raise StaleFenceError(
            f"document {document.id} is not reserved for {session.operator.name}; take it first, or give the --fence"
            f" that it was taken under"
        )
    return document.fence


def _row(document: Document) -> tuple[str, str, str]:
    return document.id, document.customer, document.spec.name


def _until(document: Document, texts: Texts) -> str:
    return "-" if document.lease_until is None else texts.time(document.lease_until)


def _describe_taken(document: Document, fields: tuple[Field, ...], texts: Texts) -> Iterator[tuple[str, str]]:
    yield texts.text("head_document"), document.id
    yield texts.text("head_customer"), document.customer
    yield texts.text("head_name"), document.spec.name
    if document.spec.metadata_json is not None:
        yield texts.text("label_metadata"), document.spec.metadata_json
    yield texts.text("head_step"), texts.number(document.step + 1)
    yield texts.text("head_until"), _until(document, texts)
    yield "Fence", str(document.fence)
    if fields:
        yield texts.text("head_form"), "; ".join(map(_describe_field, fields))


def _describe_field(field: Field) -> str:
    kind = "|".join(field.options) if field.kind is FieldKind.CHOICE else str(field.kind)
    label = "" if field.label == field.name else f"{field.label}: "
    return f"{label}{field.name}={kind}{'*' if field.required else ''}"


def _print_now(session: Session, document: Document) -> None:
    if session.as_json:
        session.emit(document_record(document))
    else:
        state = session.texts.text(STATE_TEXT_KEYS[document.state])
        session.print_text("manual_now", id=document.id, state=state, queue=document.queue)
