"""Opens a store by its address. The only place that names the stores."""

from inturn.clock import Clock
from inturn.errors import InvalidInputError
from inturn.store import Store
from inturn.stores.memory import MemoryStore


def open_store(url: str, clock: Clock | None = None) -> Store:
    """A store by its address: `memory://` for one that lives as long as this process."""
    if url == "memory://":
        return MemoryStore(clock)
    raise InvalidInputError(f"no store is known by {url!r}; use memory://")
