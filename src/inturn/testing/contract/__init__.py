"""The contract suite: at least one test for each numbered guarantee of `inturn.store`, for any store.

A module of tests for a store and its counters:

class TestMyStore(StoreContract):
    def make_store(self, clock, folder):
        return MyStore(folder / "queue", clock)

    def reopen(self, path, clock):
        return MyStore(path, clock)

class TestMyCounters(CountersContract):
    def make_counters(self, clock):
        return Counters(lambda: MyCounters(clock))

TestMyStoreSteps = same_steps(MyStore.in_a_temporary_folder).TestCase

The `conftest.py` at the root of the tests registers the marker `guarantee`, and lets a failure name its guarantee:

pytest_plugins = ["inturn.testing.plugin"]

The tests are nested by method: `TestMyStore::TestClaim::test_never_exceeds_a_cap`.
"""

try:
    import hypothesis  # noqa: F401 - `same_steps` needs it
    import pytest
except ImportError as missing:
    raise ImportError("the contract suite needs pytest and hypothesis: pip install 'inturn[testing]'") from missing

pytest.register_assert_rewrite(
    "inturn.testing.contract.api_keys",
    "inturn.testing.contract.attempts",
    "inturn.testing.contract.backup",
    "inturn.testing.contract.checks",
    "inturn.testing.contract.claims",
    "inturn.testing.contract.events",
    "inturn.testing.contract.failures",
    "inturn.testing.contract.forecasts",
    "inturn.testing.contract.groups",
    "inturn.testing.contract.history",
    "inturn.testing.contract.limits",
    "inturn.testing.contract.maintenance",
    "inturn.testing.contract.operations",
    "inturn.testing.contract.outcomes",
    "inturn.testing.contract.parts",
    "inturn.testing.contract.queries",
    "inturn.testing.contract.queues",
    "inturn.testing.contract.search",
    "inturn.testing.contract.settings",
    "inturn.testing.contract.shares",
    "inturn.testing.contract.state_machine",
    "inturn.testing.contract.steps",
    "inturn.testing.contract.submissions",
    "inturn.testing.contract.sweep",
    "inturn.testing.contract.workers",
)

from inturn.testing.contract import (  # noqa: E402 - after the rewrite is registered
    api_keys,
    attempts,
    backup,
    checks,
    claims,
    events,
    failures,
    forecasts,
    groups,
    history,
    limits,
    maintenance,
    operations,
    outcomes,
    parts,
    queries,
    queues,
    search,
    settings,
    shares,
    steps,
    submissions,
    sweep,
    workers,
)
from inturn.testing.contract.checks import CountersContract  # noqa: E402
from inturn.testing.contract.harness import StoreSuite  # noqa: E402
from inturn.testing.contract.state_machine import same_steps  # noqa: E402

__all__ = ["CountersContract", "StoreContract", "same_steps"]


class StoreContract(StoreSuite):
    """All tests of the store contract, by method, in the order of `inturn.store`."""

    TestCheck = checks.TestCheck
    TestSubmit = submissions.TestSubmit
    TestAck = outcomes.TestAck
    TestFail = outcomes.TestFail
    TestRelease = outcomes.TestRelease
    TestClaim = claims.TestClaim
    TestCharges = shares.TestCharges
    TestShares = shares.TestShares
    TestGroups = groups.TestGroups
    TestQueues = queues.TestQueues
    TestQueueLimits = limits.TestQueueLimits
    TestSteps = steps.TestSteps
    TestRetrySteps = steps.TestRetrySteps
    TestParts = parts.TestParts
    TestHeartbeat = workers.TestHeartbeat
    TestWorkers = workers.TestWorkers
    TestPauseWorker = workers.TestPauseWorker
    TestCancel = operations.TestCancel
    TestRetry = operations.TestRetry
    TestExpedite = operations.TestExpedite
    TestPurge = operations.TestPurge
    TestChangeCustomer = settings.TestChangeCustomer
    TestPause = settings.TestPause
    TestSetPolicy = settings.TestSetPolicy
    TestAttempts = attempts.TestAttempts
    TestDocuments = queries.TestDocuments
    TestCustomers = queries.TestCustomers
    TestReading = queries.TestReading
    TestFailures = failures.TestFailures
    TestForecasts = forecasts.TestForecasts
    TestSearch = search.TestSearch
    TestIndexDocuments = search.TestIndexDocuments
    TestWait = queries.TestWait
    TestEvents = events.TestEvents
    TestAudit = events.TestAudit
    TestSweep = sweep.TestSweep
    TestPrune = maintenance.TestPrune
    TestRecount = maintenance.TestRecount
    TestMaintenanceRecord = maintenance.TestMaintenanceRecord
    TestHistory = history.TestHistory
    TestBackup = backup.TestBackup
    TestApiKeys = api_keys.TestApiKeys
