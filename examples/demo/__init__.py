"""Small real documents of several kinds, made from a seed: what the demo submits and the tests read back."""

from demo.documents import KINDS, SampleDocument, make_document

__all__ = ["KINDS", "SampleDocument", "make_document"]
