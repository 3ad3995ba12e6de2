"""The HTTP API: how programs in any language use the queue. `inturn serve` runs it; see docs/http.md."""
