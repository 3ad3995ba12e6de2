"""A job in a process of its own: `python -m inturn.analysis.job_process`, asked by one line of JSON on stdin.

What can be asked is said in `inturn.analysis.jobs`. It tells `{"done": n, "total": n}` as it goes and the result or
`{"error": text}` at the end, a line each. A process, so that whoever asked stays responsive and can end it at any time.
"""

import json
import sys
from typing import Any

from inturn.analysis.jobs import run_job
from inturn.errors import InturnError


def main() -> int:
    """Do what the line says."""
    asked = json.loads(sys.stdin.readline())
    try:
        run_job(asked, _send)
    except InturnError as error:
        _send({"error": str(error)})
        return 1
    return 0


def _send(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)  # noqa: T201 - this is how it speaks


if __name__ == "__main__":
    sys.exit(main())
