"""Real children in the real sandbox, with kreuzberg's PDF library unpacked once for all of them."""

from worker_fixtures import library, run_in_sandbox

__all__ = ["library", "run_in_sandbox"]
