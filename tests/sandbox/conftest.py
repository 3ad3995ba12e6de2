"""Real children in the real sandbox, and workers that use it."""

from worker_fixtures import harness, library, marker_dir, run_in_sandbox

__all__ = ["harness", "library", "marker_dir", "run_in_sandbox"]
