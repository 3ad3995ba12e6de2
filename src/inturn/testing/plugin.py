"""A pytest plugin for the contract suite: registers the marker `guarantee`; a failure shows the guarantee's text."""

import inspect
import re
from collections.abc import Generator
from functools import cache

import pytest

from inturn import store
from inturn.store_api_keys import ApiKeys
from inturn.store_history import History


@cache
def guarantees() -> dict[str, str]:
    """Read the numbered guarantees from the docstrings of `inturn.store`: number to method and text."""
    texts: dict[str, str] = {}
    protocols = {"every method": store, **vars(store.Store), **vars(ApiKeys), **vars(History)}
    for name, documented in protocols.items():
        for paragraph in (inspect.getdoc(documented) or "").split("\n\n"):
            _, *numbered = re.split(r"(?:^(?:- )?|(?<=\.)\s+)([AS]\d+)\. ", paragraph, flags=re.MULTILINE)
            for number, text in zip(numbered[::2], numbered[1::2], strict=True):
                texts[number] = f"{name}: {' '.join(text.split())}"
    return texts


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that `--strict-markers` accepts it."""
    config.addinivalue_line("markers", "guarantee(*numbers): the guarantees of `inturn.store` that the test is about")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the guarantees of a failed test to its report."""
    report = yield
    if report.failed:
        numbers = [number for mark in item.iter_markers("guarantee") for number in mark.args]
        report.sections += [(f"guarantee {number} of inturn.store", guarantees()[number]) for number in numbers]
    return report
