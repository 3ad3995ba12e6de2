"""Real workers with real child processes."""

from worker_fixtures import place, shop, start

__all__ = ["place", "shop", "start"]
