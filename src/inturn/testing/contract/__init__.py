"""The contract suite: at least one test for each numbered guarantee of `inturn.store`, for any store.

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
    import hypothesis  # noqa: F401 - `same_steps` needs it
    import pytest
except ImportError as missing:
    raise ImportError("the contract suite needs pytest and hypothesis: pip install 'inturn[testing]'") from missing

pytest.register_assert_rewrite(
    "inturn.testing.contract.checks",
    "inturn.testing.contract.claims",
    "inturn.testing.contract.clock_skew",
    "inturn.testing.contract.maintenance",
    "inturn.testing.contract.limits",
    "inturn.testing.contract.state_machine",
    "inturn.testing.contract.operations",
    "inturn.testing.contract.queries",
    "inturn.testing.contract.api_keys_and_audit",
    "inturn.testing.contract.submissions",
    "inturn.testing.contract.attempts",
    "inturn.testing.contract.work_times",
)

from inturn.testing.contract.api_keys_and_audit import ApiKeyAndAuditTests  # noqa: E402
from inturn.testing.contract.attempts import AttemptTests  # noqa: E402
from inturn.testing.contract.checks import CheckTests, CountersContract  # noqa: E402 - after the rewrite is registered
from inturn.testing.contract.claims import ClaimTests  # noqa: E402
from inturn.testing.contract.clock_skew import ClockSkewTests  # noqa: E402
from inturn.testing.contract.limits import LimitTests  # noqa: E402
from inturn.testing.contract.maintenance import MaintenanceTests  # noqa: E402
from inturn.testing.contract.operations import OperationTests  # noqa: E402
from inturn.testing.contract.queries import QueryTests  # noqa: E402
from inturn.testing.contract.state_machine import same_steps  # noqa: E402
from inturn.testing.contract.submissions import SubmissionTests  # noqa: E402
from inturn.testing.contract.work_times import WorkTimeTests  # noqa: E402

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
    """All tests of the store contract."""
