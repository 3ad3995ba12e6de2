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

from inturn.testing.contract.checking import CheckTests, CountersContract  # noqa: E402 - after the rewrite is registered
from inturn.testing.contract.claiming import ClaimTests  # noqa: E402
from inturn.testing.contract.clocks import ClockSkewTests  # noqa: E402
from inturn.testing.contract.keeping import MaintenanceTests  # noqa: E402
from inturn.testing.contract.limiting import LimitTests  # noqa: E402
from inturn.testing.contract.machine import same_steps  # noqa: E402
from inturn.testing.contract.operating import OperationTests  # noqa: E402
from inturn.testing.contract.reading import QueryTests  # noqa: E402
from inturn.testing.contract.serving import ApiKeyAndAuditTests  # noqa: E402
from inturn.testing.contract.submitting import SubmissionTests  # noqa: E402
from inturn.testing.contract.trying import AttemptTests  # noqa: E402
from inturn.testing.contract.working import WorkTimeTests  # noqa: E402

__all__ = ["CountersContract", "StoreContract", "same_steps"]


class StoreContract(
    CheckTests,
    SubmissionTests,
    ClaimTests,
    LimitTests,
    OperationTests,
    QueryTests,
    MaintenanceTests,
    ApiKeyAndAuditTests,
    AttemptTests,
    ClockSkewTests,
    WorkTimeTests,
):
    """Everything that a store promises."""
