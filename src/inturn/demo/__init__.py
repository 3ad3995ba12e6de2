"""Small real documents of several kinds, made from a seed: what the demo submits and the tests read back."""

from inturn.demo.documents import KINDS, Made, make

__all__ = ["KINDS", "Made", "make"]
