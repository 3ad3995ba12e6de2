"""`inturn why`: in plain words, why a document is where it is and when it should start."""

from typing import Annotated

import typer

from inturn.cli.output import print_facts
from inturn.cli.records import why_record
from inturn.cli.session import Session
from inturn.prose import told


def why(session: Session, id: Annotated[str, typer.Argument(help="The document's id.")]) -> None:
    """Say why a document has its level, what goes before it, and when it should start."""
    found = session.insights.why(id)
    if session.as_json:
        session.emit(why_record(found))
    else:
        print_facts(session.console, told(found, session.texts))
