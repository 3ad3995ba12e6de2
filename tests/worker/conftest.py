"""Real workers with real child processes."""

from fetch_harness import certificate, fetch_harness
from worker_fixtures import harness, marker_dir, start

__all__ = ["certificate", "fetch_harness", "harness", "marker_dir", "start"]
