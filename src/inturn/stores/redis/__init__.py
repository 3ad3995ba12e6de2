"""Counters on Redis, for fleets whose documents wait elsewhere: one script, `check.lua`, which opens with its keys."""

from inturn.stores.redis.counters import RedisCounters

__all__ = ["RedisCounters"]
