"""Real workers with real child processes."""

from worker_fixtures import harness, marker_dir, start

__all__ = ["harness", "marker_dir", "start"]
