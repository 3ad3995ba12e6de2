"""Real children in the real sandbox, with kreuzberg's PDF library unpacked once for all of them."""

from worker_fixtures import boxed, library

__all__ = ["boxed", "library"]
