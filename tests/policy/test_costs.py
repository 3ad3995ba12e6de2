"""What a document costs by its pages, and what measured times say it should."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.errors import InvalidInputError
from inturn.model import NewDocument
from inturn.policy import CostPolicy, Policy
from inturn.policy.costs import CostFit, CostSample, fit_costs
from inturn.values import MAX_COST, MIN_COST, SECOND

NUMBERS = st.floats(0, 100, allow_nan=False)


def test_without_a_cost_by_page_every_document_costs_one() -> None:
    documents = [NewDocument("a", pages=50), NewDocument("b", cost=3)]
    assert CostPolicy(1, 0).apply(documents) is documents


def test_without_a_choice_a_document_costs_its_pages() -> None:
    documents = [
        NewDocument("a", pages=50),
        NewDocument("b", cost=3),
        NewDocument("c"),
        NewDocument("d", size=2_500_000),
    ]
    assert [document.cost for document in CostPolicy().apply(documents)] == [50, 3, 1, 3]


def test_a_policy_with_costs_is_read_back() -> None:
    policy = Policy(costs=CostPolicy(0.4, 0.1, 5_000))
    assert Policy.from_dict(policy.to_dict()) == policy


@pytest.mark.parametrize("invalid", [(-1, 1), (1, -1), (1, float("nan")), (2, 0), (1, 1, 999), (1, 1, 2_000.0)])
def test_costs_out_of_range_are_refused(invalid: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInputError):
        CostPolicy(*invalid)  # type: ignore[arg-type]  # wrong on purpose


@given(NUMBERS, st.floats(0.001, 100), st.none() | st.integers(0, 10**9), st.none() | st.integers(0, 10**12))
def test_a_cost_is_in_range_and_no_small_claim_makes_a_large_file_cheap(
    per_document: float, per_page: float, pages: int | None, size: int | None
) -> None:
    costs = CostPolicy(per_document, per_page)
    cost = costs.cost(pages, size)
    assert MIN_COST <= cost <= MAX_COST
    assert cost >= costs.cost(0, size)
    assert cost >= costs.cost(0, None)


def test_a_file_whose_pages_cannot_be_counted_costs_a_page_for_each_megabyte() -> None:
    costs = CostPolicy(per_document=0.6, per_page=0.4)
    sizes = (49_000_000, 49_000_001, 1, None)
    assert [costs.charged_pages(None, size) for size in sizes] == [49, 50, 1, 1]
    priced = costs.apply([NewDocument("a", size=size) for size in sizes])
    assert [document.cost for document in priced] == pytest.approx([20.2, 20.6, 1, 1])


@given(st.floats(0, 10), st.floats(0, 10), st.lists(st.integers(1, 300), min_size=20, max_size=60, unique=True))
def test_a_fit_finds_what_the_times_were_made_of(per_document: float, per_page: float, pages: list[int]) -> None:
    cost_fit = fit_costs(CostSample(page, round((per_document + per_page * page) * SECOND)) for page in pages)
    assert cost_fit is not None
    assert cost_fit.per_document == pytest.approx(per_document, abs=1e-3)
    assert cost_fit.per_page == pytest.approx(per_page, abs=1e-3)
    assert cost_fit.documents == len(pages)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10**9)), max_size=60))
def test_a_fit_of_anything_is_never_negative(points: list[tuple[int, int]]) -> None:
    cost_fit = fit_costs(CostSample(*point) for point in points)
    if cost_fit is not None:
        assert cost_fit.per_document >= 0
        assert cost_fit.per_page >= 0
        CostPolicy(*cost_fit.costs()) if cost_fit.per_page else None


def test_a_page_costs_one_when_a_fit_is_taken_over() -> None:
    assert CostFit(3.0, 1.0, 20).costs() == (0.75, 0.25)
    assert sum(CostFit(0.0, 0.0, 20).costs()) == 1


def test_too_little_to_go_by() -> None:
    assert fit_costs([CostSample(1, 5)] * 100) is None
    assert fit_costs([CostSample(n, n) for n in range(19)]) is None
