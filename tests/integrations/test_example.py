"""The example project does what its page says."""

import os
import subprocess
import sys
from pathlib import Path

from fleets import ENVIRONMENT, log_contains, running_process
from services import fresh_redis, needs_redis
from waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "celery_service"


@needs_redis
def test_the_small_customer_overtakes_the_bulk_one(tmp_path: Path) -> None:
    path = os.pathsep.join([str(EXAMPLE), ENVIRONMENT["PYTHONPATH"]])
    given = {"BROKER": fresh_redis(), "COUNTERS": fresh_redis(), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    log = tmp_path / "log"
    command = ["celery", "-A", "fleet", "worker", "--loglevel=WARNING", "--concurrency=2"]
    with running_process(command, log, **given):
        subprocess.run(  # noqa: S603 - our own
            [sys.executable, str(EXAMPLE / "publish.py")], env={**ENVIRONMENT, **given}, check=True, timeout=60
        )
        wait_until(lambda: log_contains(log)("invoice-2.pdf"))
    written = log.read_text(errors="replace")  # the worker goes on while it is stopped
    assert "page-150.pdf" not in written[: written.index("invoice-2.pdf")]
    assert not log_contains(log)("set worker_prefetch_multiplier")
