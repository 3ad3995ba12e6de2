"""What customers really got, what helps, and whether a change came true."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import recorded_day
from inturn.analysis import policy_evaluation
from inturn.analysis.advice import Advice, advise, busiest_span, policy_variants
from inturn.analysis.compare import Comparison, Waits, compare
from inturn.analysis.csv_history import read_csv
from inturn.analysis.fairness import FairnessReport, measure_fairness
from inturn.analysis.forecast_accuracy import measure_accuracy
from inturn.analysis.goals import parse_goal
from inturn.analysis.history import History
from inturn.analysis.history_reader import read_history
from inturn.analysis.jobs import JobTimeoutError, run_job
from inturn.analysis.policy_evaluation import PredictionResult, Trend, evaluate_policy
from inturn.analysis.replay import UNCHANGED_PLAN, Plan
from inturn.analysis.reports import advice_page, comparison_page, fairness_page
from inturn.analysis.reports.fairness import summary
from inturn.errors import InvalidInputError, NotFoundError
from inturn.i18n import LANGUAGES, Texts
from inturn.policy import Order, Policy, PriorityPolicy, TurnPolicy
from inturn.queue import Queue
from inturn.stores import open_store
from inturn.values import SECOND


@pytest.fixture(scope="module")
def day() -> Queue:
    store = open_store("memory://")
    recorded_day.record(store, 1_200)
    return Queue(store)


@pytest.fixture(scope="module")
def past(day: Queue) -> History:
    return read_history(day, 0)


def two(tmp_path: Path, rows: list[tuple[str, float, float, float]]) -> History:
    """Customer, arrived, service and started of each document."""
    path = tmp_path / "two.csv"
    lines = [f"{name},{at},{service},{started}" for name, at, service, started in rows]
    path.write_text("\n".join(["customer,arrived,service,started", *lines]))
    return read_csv(path)


def test_who_is_served_out_of_turn_does_harm_and_it_is_as_much_as_others_suffer(tmp_path: Path) -> None:
    # One worker; both bring a hundred documents at once, and all of the greedy one's are served first.
    rows = [("greedy", 0.0, 1.0, float(n)) for n in range(100)]
    rows += [("patient", 0.0, 1.0, 100.0 + n) for n in range(100)]
    fairness_report = measure_fairness(two(tmp_path, rows), 200 * SECOND)
    greedy, patient = fairness_report.customers
    assert (greedy.customer, patient.customer) == ("greedy", "patient")
    assert greedy.harm_done == pytest.approx(50, abs=11)
    assert greedy.harm_done == pytest.approx(patient.harm_suffered)
    assert patient.harm_done == pytest.approx(0, abs=1e-6)
    assert greedy.received is not None
    assert greedy.due is not None
    assert greedy.received > greedy.due
    assert 80 < fairness_report.crowded <= 200


def test_who_takes_turns_does_none(tmp_path: Path) -> None:
    rows = [(name, 0.0, 1.0, 2.0 * n + place) for n in range(100) for place, name in enumerate(("one", "other"))]
    fairness_report = measure_fairness(two(tmp_path, rows), 200 * SECOND)
    assert all(customer.harm_done < 2 for customer in fairness_report.customers)
    assert [round(customer.received or 0, 1) for customer in fairness_report.customers] == [0.5, 0.5]


def test_jain_is_by_worker_seconds_and_by_documents(tmp_path: Path) -> None:
    rows = [("long", 0.0, 27.0, 30.0 * n) for n in range(60)] + [("short", 0.0, 3.0, 30.0 * n + 27) for n in range(60)]
    report = measure_fairness(two(tmp_path, rows), 1_800 * SECOND)
    assert (report.jain, report.jain_documents) == (pytest.approx(0.61, abs=0.01), pytest.approx(1.0))
    sentences = " ".join(summary(report, Texts("en")))
    assert "0.61 by worker time, 1 by documents" in sentences


def test_nobody_is_due_more_than_it_can_use(tmp_path: Path) -> None:
    rows = [("small", 50.0, 1.0, 50.0), *(("large", 0.0, 1.0, n if n < 50 else n + 1.0) for n in range(100))]
    result = {customer.customer: customer for customer in measure_fairness(two(tmp_path, rows), 101 * SECOND).customers}
    assert result["small"].received == pytest.approx(result["small"].due)
    assert result["large"].harm_done == pytest.approx(0, abs=1e-6)


def test_where_there_is_enough_for_all_nothing_is_counted(tmp_path: Path) -> None:
    fairness_report = measure_fairness(
        two(tmp_path, [("acme", n * 10.0, 1.0, n * 10.0) for n in range(20)]), 200 * SECOND
    )
    assert (fairness_report.crowded, fairness_report.customers[0].received, fairness_report.customers[0].harm_done) == (
        0,
        None,
        0,
    )


def test_expected_starts_are_asked_for_again(past: History) -> None:
    forecast_accuracy = measure_accuracy(past, sample_size=100)
    assert forecast_accuracy is not None
    assert forecast_accuracy.asked == 100
    assert (
        forecast_accuracy.unknown + forecast_accuracy.inside + forecast_accuracy.early + forecast_accuracy.late
        == forecast_accuracy.asked
    )
    assert forecast_accuracy.inside > 50
    assert forecast_accuracy.early < 10
    assert forecast_accuracy.median_width is not None


@pytest.mark.parametrize(
    ("text", "seconds", "under", "over", "entry"),
    [
        ("p95<=5m for customers under 50 documents a day", 300, 50, None, False),
        ("p95 <= 30 s for every customer over 200 documents a day", 30, None, 200, True),
        ("worst<=1h for everyone", 3_600, None, None, False),
        ("mean≤1.5min", 90, None, None, False),
    ],
)
def test_goals_are_read(text: str, seconds: float, under: float | None, over: float | None, *, entry: bool) -> None:
    goal = parse_goal(text)
    assert (goal.seconds, goal.under, goal.over, goal.per_customer) == (seconds, under, over, entry)


@pytest.mark.parametrize("text", ["fast", "p95<=soon", "p42<=5m", "p95<=5m for small ones", "p95>=5m"])
def test_other_goals_are_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidInputError, match="such as 'p95<=5m for customers under 50"):
        parse_goal(text)


def test_a_goal_for_each_is_harder_than_for_all_together() -> None:
    waits: Mapping[str, list[float]] = {"a": [0.0] * 99, "b": [100.0], "large": [500.0]}
    per_day = {"a": 99.0, "b": 1.0, "large": 1_000.0}
    assert parse_goal("p95<=5m for customers under 100 documents a day").value(waits, per_day) == 0
    assert parse_goal("p95<=5m for every customer under 100 documents a day").value(waits, per_day) == 100
    assert parse_goal("p95<=5m for customers under 100 documents a day").value_of_others(waits, per_day) == 500


@pytest.fixture(scope="module")
def advice_and_progress(past: History) -> tuple[Advice, list[tuple[int, int]]]:
    goal = parse_goal("p95<=60s for customers under 200 documents a day")
    reported: list[tuple[int, int]] = []
    return advise(past, Plan(Policy()), goal, lambda done, total: reported.append((done, total))), reported


def test_advice_finds_the_smallest_number_of_workers(
    advice_and_progress: tuple[Advice, list[tuple[int, int]]],
) -> None:
    advice, reported = advice_and_progress
    assert not advice.now.is_met
    assert advice.smallest is not None
    assert advice.best is not None
    assert advice.smallest.is_met
    fewer = [trial for trial in advice.trials if trial.setting is None and trial.workers == advice.smallest.workers - 1]
    assert [trial.is_met for trial in fewer] == [False]
    assert advice.best.workers <= advice.smallest.workers
    assert {trial.setting for trial in advice.trials} > {None, "reset_interval", "thresholds", "overdue_after"}
    assert reported[-1] == (1, 1)
    assert not advice.is_sample
    json.dumps(advice.to_dict())


def test_advice_on_much_history_plays_its_busiest_stretch(past: History) -> None:
    sample = busiest_span(past, max_documents=500)
    assert len(sample.without_warmup().arrivals) == 500
    assert sample.warmup_documents == 50
    arrivals = sample.without_warmup().arrivals
    rate = sum(arrival.service for arrival in arrivals) / (arrivals[-1].at - arrivals[0].at)
    whole = sum(arrival.service for arrival in past.arrivals) / (past.arrivals[-1].at - past.arrivals[0].at)
    assert rate > whole
    assert busiest_span(past, max_documents=10**6) is past


def test_variants_change_one_setting_each() -> None:
    for policy in (Policy(), Policy(turns=TurnPolicy(order=Order.CLASSIC))):
        for setting, changed in policy_variants(policy):
            assert [key for key, value in changed.to_dict().items() if value != policy.to_dict()[key]] == [setting]


def test_a_change_of_the_policy_is_judged_by_what_came_since(day: Queue) -> None:
    now = recorded_day.START_TIME + 10_000 * SECOND
    reported: list[tuple[int, int]] = []
    policy_evaluation = evaluate_policy(
        day, now=now, max_documents=50_000, progress=lambda *step: reported.append(step)
    )
    assert (policy_evaluation.version, policy_evaluation.until) == (2, now)
    assert policy_evaluation.documents_before > 500
    assert policy_evaluation.documents_since > 500
    assert {group.verdict for group in policy_evaluation.groups} <= set(PredictionResult)
    assert any(group.verdict is PredictionResult.CONFIRMED for group in policy_evaluation.groups)
    assert not policy_evaluation.is_cut
    assert evaluate_policy(day, now=now, max_documents=100).is_cut
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)
    with pytest.raises(InvalidInputError, match="nothing to judge"):
        evaluate_policy(day, 1, now=now, max_documents=10)
    with pytest.raises(NotFoundError, match="no version 9"):
        evaluate_policy(day, 9, now=now, max_documents=10)


@pytest.mark.parametrize(
    ("expected", "real", "ways", "verdict"),
    [
        ((10, 5), (20, 11), (Trend.SHORTER, Trend.SHORTER), PredictionResult.CONFIRMED),
        ((10, 5), (20, 21), (Trend.SHORTER, Trend.SAME), PredictionResult.REFUTED),
        ((10, 15), (20, 30), (Trend.LONGER, Trend.LONGER), PredictionResult.CONFIRMED),
        ((10, 10.9), (20, 19), (Trend.SAME, Trend.SAME), PredictionResult.CONFIRMED),
        ((0.1, 0.5), (0.1, 5), (Trend.SAME, Trend.LONGER), PredictionResult.REFUTED),
        ((10, 5), (20, None), (Trend.SHORTER, None), PredictionResult.UNKNOWN),
        ((None, None), (20, 11), (None, Trend.SHORTER), PredictionResult.UNKNOWN),
    ],
)
def test_a_prediction_came_true_if_waits_went_its_way(
    expected: tuple[float | None, float | None],
    real: tuple[float | None, float | None],
    ways: tuple[Trend | None, Trend | None],
    verdict: PredictionResult,
) -> None:
    first, second, third, fourth = (None if item is None else Waits(item, 0, 0, 0) for item in (*expected, *real))
    assert (policy_evaluation.trend(first, second), policy_evaluation.trend(third, fourth)) == ways
    assert policy_evaluation.prediction_result(*ways) is verdict


def asked_of(day: Queue, **asked: Any) -> list[dict[str, Any]]:
    reported: list[dict[str, Any]] = []
    run_job(asked, reported.append, day)
    return reported


def test_jobs_do_all_that_screens_ask_for(day: Queue) -> None:
    one_level = Policy(PriorityPolicy(thresholds=(-(10**6),)), TurnPolicy(order=Order.CLASSIC)).to_dict()
    policy = asked_of(day, policy=one_level, since=0)[-1]["comparison"]
    assert policy["more"]
    assert len(policy["everyone"]) == policy["customers"]
    plan = {"workers": 12}
    replayed = asked_of(day, kind="replay", since=0, plan=plan)[-1]["comparison"]
    assert (replayed["workers"], replayed["workers_proposed"]) == (6, 12)
    assert asked_of(day, kind="replay", since=0)[-1]["comparison"]["is_same"]
    assert asked_of(day, kind="judge", now=recorded_day.START_TIME + 10**10)[-1]["judgement"]["version"] == 2


def test_jobs_are_bounded_and_end_when_nobody_listens(day: Queue) -> None:
    with pytest.raises(JobTimeoutError, match="longer than -1 seconds"):
        asked_of(day, kind="replay", since=0, longest=-1)
    with pytest.raises(InvalidInputError, match="a job is one of"):
        asked_of(day, kind="guess")
    reported = []

    def leave(what: dict[str, Any]) -> None:
        reported.append(what)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        run_job({"kind": "replay", "since": 0}, leave, day)
    assert [list(item) for item in reported] == [["done", "total"]]


@pytest.fixture(scope="module")
def matches(
    past: History, advice_and_progress: tuple[Advice, list[tuple[int, int]]]
) -> tuple[Comparison, FairnessReport, Advice]:
    fifo = Plan(Policy(PriorityPolicy(thresholds=(-(10**6),)), TurnPolicy(order=Order.CLASSIC)))
    hostile = [replace(arrival, customer=arrival.customer.replace("busy", "<i>busy")) for arrival in past.arrivals]
    past = replace(past, arrivals=hostile)
    report = measure_fairness(past, past.arrivals[-1].at + 10**9, measure_accuracy(past, sample_size=50))
    return compare(past, UNCHANGED_PLAN, fifo), report, advice_and_progress[0]


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_are_whole_and_load_nothing(matches: tuple[Comparison, FairnessReport, Advice], language: str) -> None:
    texts, (comparison, report, advice) = Texts(language), matches
    pages = [
        comparison_page(comparison, ["order=fifo <b>"], texts),
        fairness_page(report, texts),
        advice_page(advice, texts),
    ]
    for page in pages:
        assert page.html.startswith(f'<!doctype html>\n<html lang="{language}">')
        assert page.html.count("<figure") == len(page.charts) > 0
        assert "<b>" not in page.html
        assert "<i>" not in page.html
        outside = page.html.replace("http://www.w3.org/2000/svg", "")
        assert not any(word in outside for word in ("http:", "https:", "src=", "@import", "url("))
        for chart in page.charts:
            assert chart.svg(standalone=True).startswith("<svg xmlns=")
            assert "<style>" in chart.svg(standalone=True)
    assert {chart.name for page in pages for chart in page.charts} >= {"groups", "changes", "waiting", "waits", "curve"}
