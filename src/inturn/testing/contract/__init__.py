"""The contract suite: one test or more for each numbered guarantee of `inturn.store`, for any store.

class TestMyStore(StoreContract):
    def make_store(self, clock, folder):
        return MyStore(folder / "queue", clock)

    def reopen(self, path, clock):
        return MyStore(path, clock)

class TestMyCounters(CountersContract):
    def make_counters(self, clock):
        return Counters(lambda: MyCounters(clock))

TestMyStoreSteps = same_steps(MyStore.in_a_temporary_folder)
"""

try:
    import hypothesis  # noqa: F401 - the steps of `same_steps` are drawn by it
    import pytest
except ImportError as missing:
    raise ImportError("the contract suite needs pytest and hypothesis: pip install 'inturn[testing]'") from missing

pytest.register_assert_rewrite(
    "inturn.testing.contract.checking",
    "inturn.testing.contract.claiming",
    "inturn.testing.contract.clocks",
    "inturn.testing.contract.keeping",
    "inturn.testing.contract.limiting",
    "inturn.testing.contract.machine",
    "inturn.testing.contract.operating",
    "inturn.testing.contract.reading",
    "inturn.testing.contract.serving",
    "inturn.testing.contract.submitting",
    "inturn.testing.contract.trying",
    "inturn.testing.contract.working",
)

from inturn.testing.contract.checking import Checking, CountersContract  # noqa: E402 - after the rewrite is registered
from inturn.testing.contract.claiming import Claiming  # noqa: E402
from inturn.testing.contract.clocks import Clocks  # noqa: E402
from inturn.testing.contract.keeping import Keeping  # noqa: E402
from inturn.testing.contract.limiting import Limiting  # noqa: E402
from inturn.testing.contract.machine import same_steps  # noqa: E402
from inturn.testing.contract.operating import Operating  # noqa: E402
from inturn.testing.contract.reading import Reading  # noqa: E402
from inturn.testing.contract.serving import Serving  # noqa: E402
from inturn.testing.contract.submitting import Submitting  # noqa: E402
from inturn.testing.contract.trying import Trying  # noqa: E402
from inturn.testing.contract.working import Working  # noqa: E402

__all__ = ["CountersContract", "StoreContract", "same_steps"]


class StoreContract(
    Checking, Submitting, Claiming, Limiting, Operating, Reading, Keeping, Serving, Trying, Clocks, Working
):
    """Everything that a store promises."""
