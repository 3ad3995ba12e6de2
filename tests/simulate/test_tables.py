"""History as CSV: what is written is read again as it was, and what others write is read or refused with a reason."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inturn.analysis.csv_history import MAX_LEVEL, read_csv, write_csv
from inturn.analysis.engine import LEASE
from inturn.analysis.history import History, RecordedDocument, build_history
from inturn.errors import InvalidInputError
from inturn.values import MAX_ATTEMPTS, MAX_COST, MAX_TIME, MIN_COST, SECOND, clean_text

DAY = 86_400 * SECOND
NAMES = (
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)
    .map(lambda text: clean_text("customer", text))
    .filter(lambda text: len(text) <= 255)
)
ODD_NAMES = st.sampled_from([" acme", "acme ", "a;b", 'a"b', "a,b", "'", '"', "a\u2028b", "\u00a0", "#", "=1+1", "é"])
KINDS = st.one_of(
    st.tuples(st.just(1.0), st.integers(0, 10**9)),
    st.tuples(st.floats(MIN_COST, MAX_COST, allow_nan=False), st.none()),
)
TIMES = st.one_of(st.integers(0, 2**53), st.integers(0, MAX_TIME // 2))


@st.composite
def documents(draw: st.DrawFn) -> RecordedDocument:
    at = draw(TIMES)
    service = draw(st.one_of(st.none(), st.integers(0, 2 * DAY)))
    started = draw(st.one_of(st.none(), st.integers(at - 5 * SECOND, at + 30 * DAY).filter(lambda item: item >= 0)))
    finished = None if started is None or service is None else started + service
    failures, level = draw(st.integers(0, MAX_ATTEMPTS - 1)), draw(st.integers(0, MAX_LEVEL))
    customer = draw(st.one_of(NAMES, ODD_NAMES))
    return RecordedDocument(at, customer, draw(KINDS), service, failures, started, finished, level)


def facts(history: History) -> list[tuple[Any, ...]]:
    return [
        (
            arrival.at,
            arrival.customer,
            arrival.failures,
            history.specs[arrival.group].pages,
            history.specs[arrival.group].cost,
            level,
        )
        for arrival, level in zip(history.arrivals, history.levels, strict=True)
    ]


@given(st.lists(documents(), min_size=1, max_size=8))
def test_what_is_exported_is_read_again_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, came: list[RecordedDocument]
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    if all(recorded_document.service is None for recorded_document in came):
        came[0] = came[0]._replace(service=SECOND, started=None, finished=None)
    history = build_history(list(came), {})
    first, second = folder / "first.csv", folder / "second.csv"
    written = write_csv(history, first)
    again = read_csv(first)
    assert written == len(again.arrivals) == len(came)
    assert facts(again) == facts(history)
    for number, (arrival, other) in enumerate(zip(history.arrivals, again.arrivals, strict=True)):
        finished = history.finished[number]
        if finished is not None or history.started(number) is None:
            assert other.service == arrival.service
        if finished is not None:
            started = max(history.started(number) or 0, arrival.at)
            assert (again.started(number), again.finished[number]) == (started, started + arrival.service)
    write_csv(again, second)
    assert second.read_bytes() == first.read_bytes()


def test_a_file_without_levels_and_starts_can_be_exported_and_read(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.csv", tmp_path / "ours.csv"
    theirs.write_text("customer,arrived,service\nacme,100,2\nzoo,101.5,86400\n")
    history = read_csv(theirs)
    write_csv(history, ours)
    assert facts(read_csv(ours)) == facts(history)
    assert read_csv(ours).arrivals[1].service == LEASE - 1


@pytest.mark.parametrize(
    "text",
    [
        "customer;arrived;service;pages\nacme;2026-03-02T08:00:00Z;12,5;4\n",
        "customer;arrived;service;pages\nacme;2026-03-02T08:00:00Z;12.5;4\n",
        "customer\tarrived\tservice\tpages\nacme\t2026-03-02 08:00:00\t12,5\t4\n",
        "Customer,ARRIVED,Service,Pages\nacme,2026-03-02T08:00:00Z,12.5,4\n",
        "\ufeff Customer ; Arrived ; SERVICE ; pages \r\nacme; 2026-03-02T08:00:00Z ; 12,5 ; 4 \r\n\r\n;;;\r\n",
        'customer, arrived, service, pages\n"acme", "2026-03-02T08:00:00Z", "12.5", 4\n',
        "customer,arrived,service,pages,\nacme,2026-03-02T08:00:00Z,12.5,4,\n",
        "id,customer,region,arrived,service,pages,tenant\n7,acme,EU,2026-03-02T08:00:00Z,12.5,4,x\n",
        "customer;arrived;service;pages;note\nacme;2026-03-02T08:00:00Z;12,5;4;late, again\n",
    ],
)
def test_files_of_other_programs_are_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text(text, encoding="utf-8", newline="")
    (arrival,) = read_csv(path).arrivals
    assert (arrival.customer, arrival.at, arrival.service) == ("acme", 1_772_438_400 * SECOND, 12_500_000)


def test_columns_that_mean_nothing_are_told(tmp_path: Path) -> None:
    path, reported = tmp_path / "theirs.csv", []
    path.write_text("ID,customer,Region,arrived,service,\n7,acme,EU,100,1,\n")
    read_csv(path, on_ignored=lambda columns: reported.append(list(columns)))
    assert reported == [["id", "region"]]
    path.write_text("customer,arrived,service\nacme,100,1\n")
    read_csv(path, on_ignored=lambda columns: reported.append(list(columns)))
    assert len(reported) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("customer|arrived|service\nacme|100|1\n", "lacks customer, arrived, service.*commas, semicolons or tabs"),
        ("customer;arrived\nacme;100\n", "line 1: the header lacks service"),
        ("customer,arrived,service,statred\nacme,100,1,101\n", "does not know statred: if started is meant"),
        ("customer,arrived,service,Page\nacme,100,1,4\n", "does not know page: if pages is meant"),
        ("Customer,customer,arrived,service\nacme,b,100,1\n", "has customer twice"),
        ("customer,arrived,service\nacme,100,12,5\n", "line 2: 3 columns are needed, not 4"),
        ("customer;arrived;service\nacme;02.03.2026 08:00;1\n", "line 2: arrived must be a time such as"),
        ("customer;arrived;service\nacme;100;1.234,5\n", "line 2: service must be a number"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match=reason):
        read_csv(path)


def test_a_file_in_another_encoding_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    for encoding in ("utf-16", "latin-1"):
        path.write_bytes("customer,arrived,service\nMüller,100,1\n".encode(encoding))
        with pytest.raises(InvalidInputError, match="is not UTF-8: save it as CSV in UTF-8"):
            read_csv(path)
