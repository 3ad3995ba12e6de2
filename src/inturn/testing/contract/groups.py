"""Groups: parts of one customer take turns, and the customer's share stays as it is."""

from collections.abc import Callable
from pathlib import Path

from inturn.clock import Clock
from inturn.model import DocumentState, NewDocument
from inturn.policy import Charge, Order, Policy, TurnPolicy
from inturn.store import Store
from inturn.store_types import DocumentFilter, DocumentSort, OutcomeKind, Work
from inturn.testing.contract.harness import ANNA, SINGLE_LEVEL_POLICY, StoreHarness, guarantee
from inturn.values import seconds

BY_COST = Policy(SINGLE_LEVEL_POLICY.priority, TurnPolicy(charge=Charge.COST, max_share=1.0))
"""One level, and every document is charged its cost."""
BY_TIME = Policy(SINGLE_LEVEL_POLICY.priority, TurnPolicy(max_share=1.0))


class TestGroups:
    """Test the order inside a lane."""

    @guarantee("S56")
    def test_pile_of_one_group_does_not_delay_another(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        harness.submit("acme", 1_000, group="archive")
        harness.submit("acme", 3, group="reception")
        assert started_groups(harness, 8) == ["archive", "reception"] * 3 + ["archive"] * 2

    @guarantee("S56")
    def test_documents_without_a_group_are_one_group(self, harness: StoreHarness) -> None:
        """Also those that waited before the first document with a group came."""
        harness.set_policy(BY_COST)
        harness.submit("acme", 4)
        assert started_groups(harness, 1) == [None]
        harness.submit("acme", 2, group="reception")
        harness.submit("acme", 1)
        assert started_groups(harness, 6) == [None, "reception", None, "reception", None, None]

    @guarantee("S10")
    def test_claim_of_many_equals_claims_of_one(self, harness: StoreHarness) -> None:
        """Both customers have the same documents. One claim for both starts the same ones as claims of one."""
        harness.set_policy(BY_COST)
        groups = [None, "a", "b", "c"]
        for customer in ("acme", "beta"):
            harness.queue.submit(customer, [NewDocument(str(n), group=groups[n % 4]) for n in range(40)])
        together = [claimed.document.spec.name for claimed in harness.claim(40)]
        one_by_one = [harness.claim_one().document.spec.name for _ in range(40)]
        assert [*together[::2], *one_by_one[::2]] == [*together[1::2], *one_by_one[1::2]]
        assert together[:8:2] == ["0", "1", "2", "3"]
        assert sorted(map(int, [*together[::2], *one_by_one[::2]])) == list(range(40))

    @guarantee("S56")
    def test_customers_share_does_not_depend_on_groups(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        for n in range(30):
            harness.submit("acme", group=f"user {n}")
            harness.submit("beta")
        assert harness.claim_customers(60) == ["acme", "beta"] * 30

    @guarantee("S56")
    def test_group_pays_the_time_that_its_documents_took(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_TIME)
        for group in ("long", "short"):
            harness.submit("acme", 60, group=group)
        used = {"long": 0, "short": 0}
        for _ in range(60):
            claimed = harness.claim_one()
            group = claimed.document.spec.group or ""
            duration = 10 if group == "long" else 1
            used[group] += duration
            harness.advance(duration)
            harness.ack(claimed, result="1", work=Work(0, seconds(duration)))
        assert abs(used["long"] - used["short"]) <= 20

    @guarantee("S56")
    def test_released_document_is_its_groups_next(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        for group in ("a", "b"):
            harness.submit("acme", 3, group=group)
        first = harness.claim_one()
        harness.ack(first, OutcomeKind.RELEASED)
        assert harness.claim_one().document.spec.group == "b"
        assert harness.claim_one().document.id == first.document.id

    @guarantee("S56")
    def test_documents_that_leave_are_skipped(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        cancelled = [harness.submit_one("acme", group=group) for group in ("a", "a", "b", "c")]
        left = [harness.submit_one("acme", group=group) for group in ("c", "b", "a")]
        harness.store.cancel(cancelled, ANNA)
        assert [claimed.document.id for claimed in harness.claim(10)] == [left[2], left[1], left[0]]

    @guarantee("S56")
    def test_group_comes_back_while_the_rest_of_its_lane_leaves(self, harness: StoreHarness) -> None:
        """All of it is applied together, by the next claim."""
        harness.set_policy(BY_COST)
        grouped = harness.submit_one("acme", group="a")
        claimed = harness.claim_one()
        ungrouped = [harness.submit_one("acme") for _ in range(2)]
        harness.store.sweep()
        harness.store.cancel(ungrouped[:1], ANNA)
        harness.store.cancel(ungrouped[1:], ANNA)
        harness.ack(claimed, OutcomeKind.RELEASED)
        harness.store.sweep()
        assert [again.document.id for again in harness.claim(3)] == [grouped]

    @guarantee("S56")
    def test_classic_order_knows_no_groups(self, harness: StoreHarness) -> None:
        harness.set_policy(Policy(SINGLE_LEVEL_POLICY.priority, TurnPolicy(Order.CLASSIC)))
        ids = [harness.submit_one("acme", group=group) for group in ("a", "a", None, "b", "a")]
        assert [claimed.document.id for claimed in harness.claim(5)] == ids

    @guarantee("S56")
    def test_order_may_change_while_groups_wait(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        for group in ("a", "b"):
            harness.submit("acme", 3, group=group)
        assert started_groups(harness, 1) == ["a"]
        harness.set_policy(Policy(SINGLE_LEVEL_POLICY.priority, TurnPolicy(Order.CLASSIC)))
        assert started_groups(harness, 1) == ["a"]
        harness.set_policy(BY_COST)
        assert started_groups(harness, 4) == ["b", "a", "b", "b"]

    @guarantee("S56")
    def test_document_that_waits_too_long_is_started_out_of_turn(self, harness: StoreHarness) -> None:
        """Endless new groups do not starve an old document: the overdue slot takes the oldest of the lane."""
        turns = TurnPolicy(charge=Charge.COST, max_share=1.0, overdue_after=seconds(60), overdue_every=2)
        harness.set_policy(Policy(SINGLE_LEVEL_POLICY.priority, turns))
        harness.submit("acme", 2, group="old")
        harness.claim_one()
        started = []
        for n in range(100):
            harness.submit("acme", 2, group=f"new {n}")
            harness.advance(5)
            started.append(harness.claim_one().document.spec.group)
        assert "old" in started

    @guarantee("S56")
    def test_expedited_documents_take_turns_too(self, harness: StoreHarness) -> None:
        ids = [harness.submit_one("acme", group=group) for group in ("a", "a", "b")]
        for id_ in ids:
            harness.store.expedite(id_, ANNA)
        assert [claimed.document.id for claimed in harness.claim(3)] == [ids[0], ids[2], ids[1]]

    @guarantee("S56")
    def test_retried_document_stays_in_its_group(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        id_ = harness.submit_one("acme", group="b")
        harness.ack(harness.claim_one(), OutcomeKind.FAILED, error="no")
        harness.submit("acme", 3, group="a")
        harness.store.retry([id_], ANNA)
        assert started_groups(harness, 3) == ["a", "b", "a"]

    @guarantee("S32")
    def test_place_counts_what_other_groups_start_before(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        harness.submit("acme", 100, group="archive")
        ids = [harness.submit_one("acme", group="reception") for _ in range(3)]
        ahead = [harness.store.ahead_in_lane(id_) for id_ in ids]
        order = [claimed.document.id for claimed in harness.claim(10)]
        assert ahead == [order.index(id_) for id_ in ids]

    @guarantee("S23")
    def test_lists_show_and_filter_groups(self, harness: StoreHarness) -> None:
        for n, group in enumerate(("a", None, "b", "a", None)):
            harness.submit("acme", name=str(n), group=group)
        harness.submit("beta", name="other", group="a")

        def names(sort: DocumentSort, **where: str) -> str:
            page = harness.store.documents(DocumentFilter(**where), limit=10, sort=sort).items  # type: ignore[arg-type]
            return "".join(document.spec.name for document in page)

        assert names(DocumentSort.NEWEST, customer="acme") == "43210"
        assert names(DocumentSort.OLDEST, customer="acme") == "01234"
        assert names(DocumentSort.OLDEST, customer="acme", group="a") == "03"
        assert names(DocumentSort.OLDEST, group="a") == "03other"
        assert harness.store.counts(DocumentFilter(customer="acme", group="a")).states == {DocumentState.WAITING: 2}
        assert harness.store.customer("acme").lanes == tuple(
            lane._replace(waiting=n) for lane, n in zip(harness.store.customer("acme").lanes, (3, 2), strict=True)
        )

    @guarantee("S18")
    def test_purge_deletes_groups(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        for group in ("a", None, "b"):
            harness.submit("acme", 2, group=group)
        harness.claim_one()
        harness.store.purge("acme", ANNA)
        assert harness.claim(10) == ()
        harness.submit("acme", 2, group="c")
        harness.submit("acme", 1, group="a")
        assert started_groups(harness, 3) == ["c", "a", "c"]

    @guarantee("S30")
    def test_recount_repairs_nothing_of_groups_in_use(self, harness: StoreHarness) -> None:
        harness.set_policy(BY_COST)
        for group in ("a", None, "b"):
            harness.submit("acme", 2, group=group)
        assert started_groups(harness, 4) == ["a", None, "b", "a"]
        assert harness.store.recount(repair=True) == ()
        assert started_groups(harness, 2) == [None, "b"]

    @guarantee("S29")
    def test_backup_keeps_turns_of_groups(
        self, harness: StoreHarness, open_backup: Callable[[Path, Clock], Store], tmp_path: Path
    ) -> None:
        harness.set_policy(BY_COST)
        for group in ("a", None, "b"):
            harness.submit("acme", 3, group=group)
        started_groups(harness, 2)
        harness.store.backup(tmp_path / "backup")
        restored = StoreHarness(open_backup(tmp_path / "backup", harness.clock), harness.clock)
        assert started_groups(restored, 4) == started_groups(harness, 4) == ["b", "a", None, "b"]
        restored.store.close()


def started_groups(harness: StoreHarness, n: int) -> list[str | None]:
    """Start documents one by one; return their groups."""
    return [harness.claim_one().document.spec.group for _ in range(n)]
