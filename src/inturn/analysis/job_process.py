"""Run one job in a process of its own: `python -m inturn.analysis.job_process`, with one line of JSON on stdin.

`inturn.analysis.jobs` lists the requests. Progress `{"done": n, "total": n}` and finally the result or
`{"error": text}` are written as lines. In a process of its own a job never blocks its caller and can be killed.
"""

import json
import sys
from typing import Any

from inturn.analysis.jobs import run_job
from inturn.errors import InturnError


def main() -> int:
    """Run the requested job."""
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
