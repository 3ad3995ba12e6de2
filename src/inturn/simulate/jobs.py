"""What screens let be computed: bounded, told step by step, ended at any time by whoever listens.

`perform(asked, tell)` does one of these; `python -m inturn.simulate.preview` does it in a process of its own.

    {"kind": "policy",   "store": URL, "policy": {…}, "since": µs, "most": n}                  -> {"comparison": {…}}
    {"kind": "replay",   "store": URL, "plan": {…}, "since": µs, "until": µs, "most": n}       -> {"comparison": {…}}
    {"kind": "judge",    "store": URL, "version": n or null, "now": µs, "most": n}             -> {"judgement": {…}}
    {"kind": "advise",   "store": URL, "goal": "…", "since": µs, "most": n}                    -> {"advice": {…}}
    {"kind": "scenario", "scenario": name or TOML, "orders": ["fair", …], "seed": n, "most": n} -> {"reports": [{…}]}

A plan is `{"policy": {…}, "order": "classic", "workers": n, "settings": {customer: {"weight": 2}}}`; each may be left
out. An order without a policy is that of the policy in force. `longest` is the number of seconds that the job may take.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, Final

from inturn.errors import InvalidInputError
from inturn.policy import Policy
from inturn.simulate.advice import advise
from inturn.simulate.compare import Comparison, compare, rounded
from inturn.simulate.engine import Play, run
from inturn.simulate.goals import USUAL, parse_goal
from inturn.simulate.history import LEAD, History, Progress, read_history
from inturn.simulate.judging import judge
from inturn.simulate.replay import AS_IT_WAS, Plan
from inturn.simulate.report import report
from inturn.simulate.scenario import Scenario, built_in, parse
from inturn.store import Store
from inturn.stores import open_store

MOST: Final = 50_000
"""Documents, unless said otherwise."""
LONGEST: Final = 60.0
NAMED: Final = 200
"""Customers whose own figures a comparison carries."""

Tell = Callable[[dict[str, Any]], None]


class TookTooLongError(InvalidInputError):
    """A job was ended because of its time."""


def perform(asked: Mapping[str, Any], tell: Tell, store: Store | None = None) -> None:
    """Do what is asked, telling `{"done": n, "total": n}` on the way and the result at the end.

    `store` is for callers that have it open; else it is opened by its address. Whatever `tell` raises ends the job.
    """
    kind = asked.get("kind", "policy")
    if kind not in _KINDS:
        raise InvalidInputError(f"a job is one of {', '.join(_KINDS)}, not {kind!r}")
    ends_at = time.monotonic() + asked.get("longest", LONGEST)

    def progress(done: int, total: int) -> None:
        if time.monotonic() > ends_at:
            raise TookTooLongError(f"this took longer than {asked.get('longest', LONGEST):g} seconds; ask for less")
        if total:
            tell({"done": done, "total": total})

    if kind == "scenario":
        tell(_scenario(asked, progress))
        return
    with _opened(asked, store) as opened:
        tell(_KINDS[kind](asked, opened, progress))


@contextmanager
def _opened(asked: Mapping[str, Any], store: Store | None) -> Iterator[Store]:
    if store is not None:
        yield store
        return
    opened = open_store(asked["store"])
    try:
        yield opened
    finally:
        opened.close()


def _read(asked: Mapping[str, Any], store: Store, progress: Progress) -> History:
    since, until, most = asked["since"], asked.get("until"), asked.get("most", MOST)
    return read_history(store, since, until=until, lead=min(LEAD, since), most=most, progress=progress)


def _policy(asked: Mapping[str, Any], store: Store, progress: Progress) -> dict[str, Any]:
    current = Plan(store.policy().policy)
    found = compare(_read(asked, store, progress), current, Plan(Policy.of(asked["policy"])), progress)
    return {"comparison": _with_customers(found)}


def _replay(asked: Mapping[str, Any], store: Store, progress: Progress) -> dict[str, Any]:
    kept = asked.get("plan") or {}
    policy = None if kept.get("policy") is None else Policy.of(kept["policy"])
    if kept.get("order") is not None:
        (play,) = _plays([kept["order"]])
        policy = play.policy(policy or store.policy().policy)
    proposed = Plan(policy, kept.get("workers"), kept.get("settings") or {})
    found = compare(_read(asked, store, progress), AS_IT_WAS, None if proposed == AS_IT_WAS else proposed, progress)
    return {"comparison": _with_customers(found)}


def _with_customers(found: Comparison) -> dict[str, Any]:
    return {**found.plain(), "everyone": [rounded(asdict(each)) for each in found.everyone[:NAMED]]}


def _judge(asked: Mapping[str, Any], store: Store, progress: Progress) -> dict[str, Any]:
    most = asked.get("most", MOST)
    found = judge(store, asked.get("version"), now=asked["now"], most=most, progress=progress)
    return {"judgement": found.plain()}


def _advise(asked: Mapping[str, Any], store: Store, progress: Progress) -> dict[str, Any]:
    goal = parse_goal(asked.get("goal") or USUAL)
    return {"advice": advise(_read(asked, store, progress), Plan(store.policy().policy), goal, progress).plain()}


def _scenario(asked: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    scenario = _named(asked["scenario"])
    if asked.get("seed") is not None:
        scenario = replace(scenario, seed=asked["seed"])
    plays = _plays(asked.get("orders") or Play)
    found = []
    for number, play in enumerate(plays):

        def told(done: int, total: int, before: int = number) -> None:
            progress(before * total + done, len(plays) * total)

        found.append(report(run(scenario, play, progress=told, most=asked.get("most", MOST))).plain())
    return {"reports": found}


def _plays(orders: Iterable[str]) -> list[Play]:
    unknown = set(orders) - set(Play)
    if unknown:
        raise InvalidInputError(f"an order is one of {', '.join(Play)}, not {', '.join(sorted(unknown))}")
    return [Play(each) for each in orders]


def _named(text: str) -> Scenario:
    """A built-in scenario by its name, or one written as TOML; never a file of this machine."""
    known = built_in()
    return known[text] if text in known else parse("scenario", text)


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any], Store, Progress], dict[str, Any]]]] = {
    "policy": _policy,
    "replay": _replay,
    "judge": _judge,
    "advise": _advise,
    "scenario": lambda asked, _, progress: _scenario(asked, progress),
}
