"""Read JSON that a user has written: from a file, or from standard input."""

import json
import sys
from pathlib import Path
from typing import Any

from inturn.errors import InvalidInputError


def read_json(what: str, source: str) -> Any:
    """Read a file, or standard input for `-`; `what` names the value in the error."""
    try:
        return json.loads(sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} must be JSON in UTF-8: {error}") from error
