"""A comparison as a job of its own: `python -m inturn.simulate.preview`, asked by one line of JSON on stdin.

    {"store": URL, "policy": {…}, "since": microseconds, "most": documents}

It tells `{"done": n, "total": n}` as it goes and `{"comparison": {…}}` or `{"error": text}` at the end, a line each.
A process, so that whoever asked stays responsive and can end it at any time.
"""

import json
import sys
from typing import Any

from inturn.errors import InturnError
from inturn.policy import Policy
from inturn.simulate.history import read_history
from inturn.simulate.replay import compare
from inturn.stores import open_store


def main() -> int:
    """Do what the line says."""
    asked = json.loads(sys.stdin.readline())
    try:
        store = open_store(asked["store"])
        try:
            history, current = read_history(store, asked["since"], most=asked["most"]), store.policy().policy
        finally:
            store.close()
        found = compare(history, current, Policy.of(asked["policy"]), lambda done, total: _tell(done=done, total=total))
    except InturnError as wrong:
        _tell(error=str(wrong))
        return 1
    _tell(comparison=found.plain())
    return 0


def _tell(**what: Any) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 - this is how it speaks


if __name__ == "__main__":
    sys.exit(main())
