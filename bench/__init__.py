"""Benchmarks: each measures us and the other side in one run and reports a ratio."""
