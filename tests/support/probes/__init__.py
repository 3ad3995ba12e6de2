"""What a parser that was taken over would try. A probe raises OSError when it is refused, and returns when it passes.

Runs inside sandboxed children, as a stand-in for kreuzberg or as a processor, and outside as the control: a probe that
is refused there as well shows nothing. Everything it changes is a victim that the test made for it.
"""

from . import files, inherited, kernel, network, processes  # noqa: F401 - each registers its probes
from .runner import aim, run_all, run_all_forked

__all__ = ["aim", "run_all", "run_all_forked"]
