"""Serve the queue over HTTP: `inturn serve` runs it, docs/http.md describes it."""

import logging
from typing import Final

log: Final = logging.getLogger("inturn.http")
"""The one logger of the server."""
