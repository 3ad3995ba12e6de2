"""`inturn search`: documents, customers, batches and errors by one text."""

from collections.abc import Sequence
from typing import Annotated

import typer

from inturn.cli.json_output import document_record
from inturn.cli.lists import LimitOption, print_documents
from inturn.cli.output import Column, print_table
from inturn.cli.session import Session
from inturn.errors import InvalidInputError
from inturn.store_types import PartsChoice


def search(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Words, an id, key:value of metadata, part of an error.")],
    *,
    customer: Annotated[str | None, typer.Option("--customer", help="Only what is of this customer.")] = None,
    parts: Annotated[
        PartsChoice, typer.Option("--parts", help="Parts of split documents; left out, they are found by their id.")
    ] = PartsChoice.EXCLUDE,
    limit: LimitOption = 10,
) -> None:
    """Search documents, customers, batches and errors."""
    if not text.strip():
        raise InvalidInputError("there is nothing to search for: give a word, an id or key:value of metadata")
    result = session.queue.search(text, limit=limit, customer=customer, parts=parts)
    if session.as_json:
        session.emit(
            {
                "documents": [document_record(document) for document in result.documents],
                "batches": list(result.batches),
                "customers": [match._asdict() for match in result.customers],
                "errors": [match._asdict() for match in result.errors],
                "is_complete": result.is_complete,
            }
        )
        return
    texts = session.texts
    if not any(result[:4]):
        session.print_text("search_none", text=text)
    if result.documents:
        print_documents(session, result.documents)
    names = [(match.name, match.display_name or "") for match in result.customers]
    _print_matches(session, ("head_customer", "head_display_name"), names)
    _print_matches(session, ("head_batch",), [(batch,) for batch in result.batches])
    errors = [(match.line, texts.number(match.documents)) for match in result.errors]
    _print_matches(session, ("head_error", "head_documents"), errors)
    if not result.is_complete:
        typer.echo(texts.text("search_incomplete"), err=True)


def _print_matches(session: Session, heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    if rows:
        columns = [Column(session.texts.text(head), folds=True, number=head == "head_documents") for head in heads]
        print_table(session.console, columns, rows)
