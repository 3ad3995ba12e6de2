"""`inturn check` and `inturn submit`: documents come in."""

import json
import mimetypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from inturn.cli.output import Column, print_table
from inturn.cli.session import Session
from inturn.errors import InvalidInputError
from inturn.model import NewDocument, clean_text, clean_time, seconds

URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def check(
    session: Session,
    customer: Annotated[str, typer.Argument(help="Whose documents.")],
    *,
    count: Annotated[int, typer.Option("--count", help="How many documents.")] = 1,
    at: Annotated[float | None, typer.Option("--at", metavar="SECONDS", help="When, for tests and replays.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Makes repeating the call safe.")] = None,
) -> None:
    """Tell which levels a customer's next documents get, for those that wait in a queue of your own."""
    customer = clean_text("a customer's name", customer)
    now = None if at is None else clean_time("--at", seconds(at))
    checks = session.queue.check(customer, count, key=key, now=now)
    if session.as_json:
        for each in checks:
            session.emit({"customer": customer, "count": each.count, "level": each.level})
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_customer"), folds=True),
        Column(texts.text("head_counter"), number=True),
        Column(texts.text("head_level"), number=True),
    ]
    rows = [(customer, texts.number(each.count), texts.number(each.level)) for each in checks]
    print_table(session.console, columns, rows)


def submit(  # noqa: PLR0913 - what can be said of a document
    session: Session,
    documents: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE_OR_URI]...", help="Files, or addresses of documents elsewhere.")
    ] = None,
    *,
    customer: Annotated[str, typer.Option("--customer", help="Whose documents.")],
    batch: Annotated[str | None, typer.Option("--batch", help="A name for documents that belong together.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Makes repeating the call safe.")] = None,
    metadata: Annotated[str, typer.Option("--metadata", metavar="JSON", help="A JSON object kept with each.")] = "{}",
    name: Annotated[str | None, typer.Option("--name", help="The name of a single document; else its file's.")] = None,
) -> None:
    """Submit documents of one customer, by reference: the files stay where they are."""
    customer = clean_text("a customer's name", customer)
    common = {"batch": batch, "metadata": _metadata(metadata)}
    given = _documents(documents or [], name, common)
    receipts = session.queue.submit(customer, given, key=key)
    told = zip(receipts, given, strict=True)
    if session.as_json:
        for receipt, document in told:
            session.emit({**receipt._asdict(), "customer": customer, "name": document.name})
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_document")),
        Column(texts.text("head_level"), number=True),
        Column(texts.text("head_counter"), number=True),
        Column(texts.text("head_name"), folds=True),
    ]
    rows = [(each.id, texts.number(each.level), texts.number(each.count), document.name) for each, document in told]
    print_table(session.console, columns, rows)


def _documents(references: Sequence[str], name: str | None, common: dict[str, Any]) -> list[NewDocument]:
    if name is not None and len(references) > 1:
        raise InvalidInputError(f"--name is for a single document, not for {len(references)}; leave it out")
    if not references:
        if name is None:
            raise InvalidInputError("nothing to submit: name files or addresses, or give a --name alone")
        return [NewDocument(name, **common)]
    return [_document(each, name, common) for each in references]


def _document(reference: str, name: str | None, common: dict[str, Any]) -> NewDocument:
    if URI.match(reference):
        last = urlsplit(reference).path.rstrip("/").rpartition("/")[2]
        return NewDocument(name or last or reference, uri=reference, **common)
    path = Path(reference).absolute()
    try:
        size = path.stat().st_size
    except OSError as wrong:
        raise InvalidInputError(f"{reference!r} cannot be read: {wrong.strerror}; name a file, or a URI") from wrong
    if not path.is_file():
        raise InvalidInputError(f"{reference!r} is no file; name the files in it, such as {reference.rstrip('/')}/*")
    kind = mimetypes.guess_type(path.name)[0]
    return NewDocument(name or path.name, uri=path.as_uri(), size=size, media_type=kind, **common)


def _metadata(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as wrong:
        raise InvalidInputError(f"--metadata must be JSON: {wrong}") from wrong
    if not isinstance(found, dict):
        raise InvalidInputError(f'--metadata must be a JSON object such as {{"pages": 3}}, not {text}')
    return found
