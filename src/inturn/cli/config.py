"""`inturn config show`: list the settings of this machine and their origins."""

from inturn.cli.output import Column, print_table
from inturn.cli.session import Session
from inturn.config import Value


def show(session: Session) -> None:
    """Show each setting, its value and its origin."""
    origins = session.settings.origins
    if session.as_json:
        for origin in origins:
            session.emit({"setting": origin.name, "value": origin.value, "from": origin.origin})
        return
    texts = session.texts
    columns = [
        Column(texts.text("head_setting")),
        Column(texts.text("head_value"), folds=True),
        Column(texts.text("head_origin"), folds=True),
    ]
    rows = [(origin.name, _format_value(origin.value), origin.origin) for origin in origins]
    print_table(session.console, columns, rows)


def _format_value(value: Value) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)
