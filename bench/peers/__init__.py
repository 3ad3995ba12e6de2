"""The other side of `bench.workers`, one file a peer: what its workers import, and how they are started and counted."""
