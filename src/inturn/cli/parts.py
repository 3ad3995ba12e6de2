"""`inturn parts`: list the parts of a document, and what became of each."""

import json
from typing import Annotated, Any, Final

import typer

from inturn.cli.lists import LimitOption
from inturn.cli.output import Column, first_line, print_table
from inturn.cli.result import read_stored
from inturn.cli.session import Session
from inturn.insights.explain import STATE_TEXT_KEYS
from inturn.store_types import PartResult

MAX_RESULT_LENGTH: Final = 80
"""Characters of a result or an error that the table shows."""


def parts(
    session: Session,
    id: Annotated[str, typer.Argument(help="The document's id.")],
    *,
    limit: LimitOption = 100,
    after: Annotated[int, typer.Option("--after", metavar="N", min=0, help="Only parts with a higher number.")] = 0,
) -> None:
    """List the parts of a document, with their results and errors.

    Each part is a document of its own: its id works with every command.
    """
    document = session.queue.document(id)
    page = session.queue.parts(document.id, limit=limit, after=after)
    if session.as_json:
        for part in page:
            session.emit(part_record(session, part))
    elif not page and not after:
        session.print_text("parts_none")
    else:
        _print_parts(session, page)
    if len(page) == limit and session.queue.parts(document.id, limit=1, after=page[-1].part):
        typer.echo(session.texts.text("more", cursor=page[-1].part), err=True)


def part_record(session: Session, part: PartResult) -> dict[str, Any]:
    """Build the JSON of a part."""
    value, files = read_stored(session, part.result, part.files)
    own = {"id": part.id, "part": part.part, "name": part.name, "state": str(part.state)}
    return {**own, "result": value, "error": part.error, "files": files}


def _print_parts(session: Session, page: tuple[PartResult, ...]) -> None:
    texts = session.texts
    columns = [
        Column(texts.text("head_part"), number=True),
        Column(texts.text("head_document")),
        Column(texts.text("head_state")),
        Column(texts.text("head_name"), folds=True),
        Column(texts.text("head_result"), folds=True),
    ]
    rows = [
        (
            texts.number(part.part),
            part.id,
            texts.text(STATE_TEXT_KEYS[part.state]),
            part.name,
            first_line(part.error or _compact(part.result), MAX_RESULT_LENGTH) or "-",
        )
        for part in page
    ]
    print_table(session.console, columns, rows)


def _compact(text: str | None) -> str:
    return "" if text is None else json.dumps(json.loads(text), ensure_ascii=False)
