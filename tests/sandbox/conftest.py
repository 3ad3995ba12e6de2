"""Real children in the real sandbox, and workers that use it."""

from worker_fixtures import boxed, library, place, shop

__all__ = ["boxed", "library", "place", "shop"]
