"""Fleets of worker processes with small claims: documents/s of whole fleets, and a light customer's wait.

    python -m bench fleet [--baseline PATH] [--processes N …] [--claims K …] [--customers N …] [--sides NAME …]
    python -m bench fleet --latency

A cell is a number of processes, a claim size and a number of customers. In every cell each side claims and durably
finishes the same number of documents. All processes of a side are started, connected and warmed up before its clock
starts; the clock stops when the last document is finished. Sides take turns in rounds, on one server and one disk.
Ratios are medians of the rounds' ratios; documents/s are shown as context. CPU is the time that the processes of a side
and the server's used for a document: other work on the machine changes it less than the documents/s.

Every side's finishing commit is synchronous (PostgreSQL with fsync and synchronous_commit=on, SQLite with
synchronous=FULL). Claims of `inturn-postgres` and `bare-postgres` that finish nothing commit asynchronously; PgQueuer's
commit as it comes, synchronously. Inturn keeps the fair order, leases, events and results. `bare-postgres` keeps
results, `pgqueuer` a log line, `huey-sqlite` results; these three have no customers, only priorities.

A call is one `ack_and_claim` of Inturn, and one claim with its finish of the others, of up to k documents each.
Sides ending in `-before` run the same worker script on the checkout that `--baseline` names.
"""

import argparse
import json
import os
import random
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from bench.fleet_worker import BEFORE, MODULES
from bench.measure import check_limit, median, spread
from bench.peers.postgres_server import SETTINGS, database, drop_database, server, server_cpu_seconds
from bench.services import ROOT, folder, kill, start_process

PROCESSES = (1, 4, 8, 16)
CLAIMS = (1, 4, 10)
CUSTOMERS = (1, 1_000)
ROUNDS = 3
STORES = {"inturn-postgres": "PostgreSQL", "inturn-sqlite": "SQLite"}
OURS = tuple(STORES)
DOCUMENTS = {1: 1_000, 4: 2_000, 10: 3_000}
"""Documents of a cell by claim size, so that the slowest side takes 2 to 4 s."""
WARM_UP_CALLS = 8
"""Calls of a process before the clock starts; the server plans a prepared statement for good after six."""
TIMEOUT_SECONDS = 120
"""Seconds after which a process is taken for stuck."""
LATENCY_CLAIMERS = 16
FLOOD_DOCUMENTS = 100_000
DOCUMENT_SECONDS = 0.005
REPEATS = 50
LIGHT = "light"


class Cell(NamedTuple):
    """One setting that all sides run in."""

    processes: int
    claim: int
    customers: int

    @property
    def label(self) -> str:
        return f"processes {self.processes}, claims of {self.claim}, customers {self.customers:,}"


class Drained(NamedTuple):
    """What one side did in one round: documents/s, seconds of its calls, documents that were lost, and CPU time."""

    rate: float
    calls: list[float]
    missing: int
    client_cpu: float
    """Milliseconds of the workers' CPU for a document."""
    server_cpu: float
    """Milliseconds of the server's CPU for a document."""

    @property
    def cpu(self) -> float:
        """Milliseconds of CPU for a document, of workers and server together."""
        return self.client_cpu + self.server_cpu


class Fleet:
    """The worker processes of one side: they stay alive through all cells, and open a queue for each round."""

    def __init__(self, side: str, n: int, path: Path, baseline: Path | None) -> None:
        self.side, self._path = side, path
        self._source = baseline if side.endswith(BEFORE) and baseline else ROOT
        environment = {"PYTHONPATH": os.pathsep.join([str(self._source / "src"), str(ROOT)])}
        command = [sys.executable, "-m", "bench.fleet_worker", side]
        self.processes: list[subprocess.Popen[bytes]] = []
        for _ in range(n):
            self.processes.append(start_process(command, path, environment, piped=True))

    @property
    def is_on_postgres(self) -> bool:
        return "sqlite" not in self.side

    def send(self, process: subprocess.Popen[bytes], command: str, **arguments: Any) -> None:
        assert process.stdin is not None  # noqa: S101 - piped
        process.stdin.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
        process.stdin.flush()

    def receive(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """Return its next answer, which is one line."""
        assert process.stdout is not None  # noqa: S101 - piped
        ready, _, _ = select.select([process.stdout], [], [], TIMEOUT_SECONDS)
        line = process.stdout.readline() if ready else b""
        if not line:
            output = (self._path / "said.txt").read_text(encoding="utf-8", errors="replace")[-1500:]
            raise RuntimeError(f"{self.side}: a worker process does not answer: {output}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def call(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Let the first process carry out a command."""
        self.send(self.processes[0], command, **arguments)
        return self.receive(self.processes[0])

    def call_all(self, command: str, **arguments: Any) -> list[dict[str, Any]]:
        """Let all processes carry out a command at the same time."""
        for process in self.processes:
            self.send(process, command, **arguments)
        return [self.receive(process) for process in self.processes]

    def setup(self, target: str) -> None:
        """Make an empty queue, and check that the processes run the code that they should."""
        source = self.call("setup", target=target)["source"]
        if source and not Path(source).is_relative_to(self._source):
            raise RuntimeError(f"{self.side} runs {source}, not {self._source}")

    def fill(self, target: str, documents: int, customers: int) -> None:
        self.call("fill", target=target, documents=documents, customers=customers)
        if self.is_on_postgres:
            with psycopg.connect(target, autocommit=True) as connection:
                connection.execute(b"VACUUM ANALYZE")

    def close(self) -> None:
        kill(self.processes)
        for process in self.processes:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


@contextmanager
def fleets(sides: Sequence[str], n: int, baseline: Path | None) -> Iterator[list[Fleet]]:
    """Start the processes of all sides; the sides that are not on the clock wait for their next command."""
    with ExitStack() as stack:
        started = []
        for side in sides:
            started.append(Fleet(side, n, stack.enter_context(folder()), baseline))
            stack.callback(started[-1].close)
        yield started


@contextmanager
def queues(sides: Sequence[Fleet], url: str, purpose: str) -> Iterator[dict[str, str]]:
    """Make an empty queue for each side: a database or a file, gone afterwards."""
    with ExitStack() as stack:
        path = stack.enter_context(folder())
        targets = {}
        for fleet in sides:
            if fleet.is_on_postgres:
                targets[fleet.side] = database(url, f"{fleet.side.replace('-', '_')}_{purpose}")
                stack.callback(drop_database, targets[fleet.side])
            else:
                targets[fleet.side] = str(path / f"{fleet.side}.db")
            fleet.setup(targets[fleet.side])
        yield targets


# -- throughput -----------------------------------------------------------------------------------------------------


def drain(fleet: Fleet, target: str, cell: Cell, documents: int) -> Drained:
    """Fill a queue, open all processes on it, and let them empty it together."""
    warm_up = WARM_UP_CALLS * cell.processes * cell.claim
    fleet.fill(target, documents + warm_up, cell.customers)
    opened = fleet.call_all("open", target=target, limit=cell.claim, warm_up=WARM_UP_CALLS)
    used_before = server_cpu_seconds(target) if fleet.is_on_postgres else 0.0
    reports = fleet.call_all("drain")
    used = server_cpu_seconds(target) - used_before if fleet.is_on_postgres else 0.0
    finished = sum(report["finished"] for report in reports)
    seconds = max(report["ended"] for report in reports) - min(report["begun"] for report in reports)
    missing = documents + warm_up - finished - sum(answer["finished"] for answer in opened)
    calls = [call for report in reports for call in report["calls"]]
    client_cpu = 1e3 * sum(report["cpu"] for report in reports) / finished
    return Drained(finished / seconds, calls, missing, client_cpu, 1e3 * used / finished)


def measure(sides: Sequence[Fleet], url: str, cell: Cell, documents: int, rounds: int) -> dict[str, list[Drained]]:
    """Drain the same documents on every side, in turns; every other round begins with the last side."""
    results: dict[str, list[Drained]] = {fleet.side: [] for fleet in sides}
    with queues(sides, url, "_".join(map(str, cell))) as targets:
        for turn in range(rounds):
            for fleet in sides if turn % 2 == 0 else sides[::-1]:
                results[fleet.side].append(drain(fleet, targets[fleet.side], cell, documents))
    return results


def throughput(options: argparse.Namespace, url: str) -> int:
    table: dict[Cell, dict[str, list[Drained]]] = {}
    missed = 0
    for processes in options.processes:
        with fleets(options.sides, processes, options.baseline) as sides:
            for claim in options.claims:
                for customers in options.customers:
                    cell = Cell(processes, claim, customers)
                    documents = options.documents or _documents(claim)
                    table[cell] = measure(sides, url, cell, documents, options.rounds)
                    missed += print_cell(cell, documents, table[cell])
    print_tables(table, options)
    return missed


def _documents(claim: int) -> int:
    return DOCUMENTS[max((size for size in DOCUMENTS if size <= claim), default=1)]


def rates(results: Sequence[Drained]) -> list[float]:
    return [result.rate for result in results]


def ratio(ours: Sequence[Drained], theirs: Sequence[Drained]) -> float:
    """Return the median of the rounds' ratios: a slow minute hits both sides of a round."""
    return median([mine.rate / other.rate for mine, other in zip(ours, theirs, strict=True)])


def percentiles(calls: Sequence[float]) -> tuple[float, float]:
    """Return p50 and p99 in milliseconds."""
    cuts = statistics.quantiles(calls, n=100, method="inclusive") if len(calls) > 1 else [calls[0]] * 99
    return cuts[49] * 1e3, cuts[98] * 1e3


def cpu_ratio(ours: Sequence[Drained], theirs: Sequence[Drained]) -> float:
    """Return what the others use of CPU for a document, in times of ours."""
    return median([other.cpu / mine.cpu for mine, other in zip(ours, theirs, strict=True)])


def call_times(results: Sequence[Drained]) -> str:
    p50, p99 = percentiles([call for result in results for call in result.calls])
    return f"{p50:.2f} / {p99:.2f} ({p99 / p50:.1f})"


def cpu_times(results: Sequence[Drained]) -> str:
    client, server = (median([getattr(result, f"{side}_cpu") for result in results]) for side in ("client", "server"))
    return f"{client:.2f} + {server:.2f}"


def print_cell(cell: Cell, documents: int, results: dict[str, list[Drained]]) -> int:
    """Print a cell's figures as soon as it is over; return how many sides lost documents."""
    print(f"{cell.label}, {documents:,} documents:")
    for side, drained in results.items():
        ours = next((name for name in OURS if name in results and is_one_store(name, side)), side)
        against = "" if ours == side else (f", {ours} at {ratio(results[ours], drained):.2f} of it"
                                           f" ({cpu_ratio(results[ours], drained):.2f} by CPU)")  # fmt: skip
        print(f"  {side}: documents/s {spread(rates(drained))}{against};"
              f" call p50 / p99 ms {call_times(drained)}; CPU ms {cpu_times(drained)}", flush=True)  # fmt: skip
    missing = {side: sum(result.missing for result in drained) for side, drained in results.items()}
    return sum(
        check_limit(f"{side}: documents not finished", abs(n), 0, at_most=True) for side, n in missing.items() if n
    )


def is_one_store(left: str, right: str) -> bool:
    return ("sqlite" in left) == ("sqlite" in right)


def print_tables(table: dict[Cell, dict[str, list[Drained]]], options: argparse.Namespace) -> None:
    """Print a table in Markdown for each store."""
    for ours in OURS:
        sides = [side for side in options.sides if is_one_store(ours, side)]
        peers = [side for side in sides if side != ours]
        if ours not in sides:
            continue
        print(f"\n### Fleets on {STORES[ours]}\n\n`python -m bench fleet`, medians of {options.rounds} rounds in turns."
              f" Calls: p50 / p99 in ms (p99/p50). CPU: ms for a document, workers + server.\n")  # fmt: skip
        names = ["processes", "claim", "customers", f"{ours}, documents/s", *(f"ratio to {side}" for side in peers)]
        names += [f"by CPU to {side}" for side in peers] + [f"CPU of {side}" for side in sides]
        names += [f"call of {side}" for side in sides]
        print("| " + " | ".join(names) + " |\n|" + "---:|" * len(names))
        for cell, results in table.items():
            figures = [f"{number:,}" for number in cell] + [f"{median(rates(results[ours])):,.0f}"]
            figures += [f"{ratio(results[ours], results[side]):.2f}" for side in peers]
            figures += [f"{cpu_ratio(results[ours], results[side]):.2f}" for side in peers]
            figures += [cpu_times(results[side]) for side in sides]
            figures += [call_times(results[side]) for side in sides]
            print("| " + " | ".join(figures) + " |", flush=True)


# -- latency --------------------------------------------------------------------------------------------------------


class Waits(NamedTuple):
    """Seconds of light documents until they started, of their submits, of the claimers' calls, and of lone calls."""

    until_start: list[float]
    submits: list[float]
    calls: list[float]
    lone_calls: list[float]

    @property
    def unit(self) -> float:
        """A document's time with its claim: that of a lone claimer, as a slow fleet must not stretch the measure."""
        return DOCUMENT_SECONDS + median(self.lone_calls)


def light_waits(fleet: Fleet, target: str, limit: int, flood: int) -> Waits:
    """Submit a document of a new customer again and again while all other processes work on a flood."""
    submitter, *claimers = fleet.processes
    fleet.setup(target)
    fleet.fill(target, flood, 1)
    arguments = {"target": target, "limit": limit}
    alone = fleet.call("open", **arguments, warm_up=WARM_UP_CALLS + REPEATS)["calls"][WARM_UP_CALLS:]
    for claimer in claimers:
        fleet.send(claimer, "open", **arguments, warm_up=WARM_UP_CALLS)
    for claimer in claimers:
        fleet.receive(claimer)
        fleet.send(claimer, "serve", seconds=DOCUMENT_SECONDS, watched=LIGHT)
    waits = Waits([], [], [], alone)
    chance = random.Random(1)
    time.sleep(0.5)
    for number in range(REPEATS):
        time.sleep(chance.uniform(0.02, 0.06))
        fleet.send(submitter, "submit", customer=f"{LIGHT} {number}")
        started = _first_answer(fleet, claimers)
        sent = fleet.receive(submitter)
        waits.until_start.append(started["at"] - sent["before"])
        waits.submits.append(sent["after"] - sent["before"])
    for claimer in claimers:
        fleet.send(claimer, "stop")
    for claimer in claimers:
        waits.calls.extend(fleet.receive(claimer)["calls"])
    fleet.call_all("close")
    return waits


def _first_answer(fleet: Fleet, claimers: Sequence[subprocess.Popen[bytes]]) -> dict[str, Any]:
    pipes = {process.stdout: process for process in claimers if process.stdout is not None}
    ready, _, _ = select.select(list(pipes), [], [], TIMEOUT_SECONDS)
    if not ready:
        raise RuntimeError(f"{fleet.side}: the light customer's document does not start")
    return fleet.receive(pipes[ready[0]])


def latency(options: argparse.Namespace, url: str) -> int:
    """A light customer's document behind a flood of level 9, in times of a document with its claim."""
    sides = [side for side in options.sides if side.removesuffix(BEFORE) in OURS]
    limit, flood = options.claims[0], options.documents or FLOOD_DOCUMENTS
    rows, missed = [], 0
    with fleets(sides, LATENCY_CLAIMERS + 1, options.baseline) as started, folder() as path:
        for fleet in started:
            name = fleet.side.replace("-", "_")
            target = database(url, f"{name}_latency") if fleet.is_on_postgres else str(path / f"{name}.db")
            waits = light_waits(fleet, target, limit, flood)
            rows.append(f"| {fleet.side} | {_describe_waits(waits)} |")
            missed += check_limit(
                f"{fleet.side}: a light customer's wait in documents' times with their claim",
                median(waits.until_start) / waits.unit,
                1.5,
                at_most=True,
            )
    print(f"\n### A light customer beside a flood\n\n`python -m bench fleet --latency`: {flood:,} documents of one"
          f" customer wait, {LATENCY_CLAIMERS} processes claim {limit} at a time, each document takes"
          f" {DOCUMENT_SECONDS * 1e3:g} ms; one of another customer comes, {REPEATS} times.\n")  # fmt: skip
    print("| side | until it starts, ms, median / p95 | in documents' times | in documents' times with their claim"
          " | a lone claim, ms | its submit, ms | call of the fleet p50 / p99, ms |\n|---|" + "---:|" * 6)  # fmt: skip
    print("\n".join(rows), flush=True)
    return missed


def _describe_waits(waits: Waits) -> str:
    middle, late = median(waits.until_start), sorted(waits.until_start)[int(len(waits.until_start) * 0.95)]
    p50, p99 = percentiles(waits.calls)
    return (
        f"{middle * 1e3:.1f} / {late * 1e3:.1f} | {middle / DOCUMENT_SECONDS:.2f} / {late / DOCUMENT_SECONDS:.2f}"
        f" | {middle / waits.unit:.2f} / {late / waits.unit:.2f} | {median(waits.lone_calls) * 1e3:.1f}"
        f" | {median(waits.submits) * 1e3:.1f} | {p50:.1f} / {p99:.1f}"
    )


# -- all ------------------------------------------------------------------------------------------------------------


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench fleet", description="Measure fleets of worker processes.")
    parser.add_argument("--latency", action="store_true", help="measure a light customer's wait instead")
    parser.add_argument("--baseline", type=Path, metavar="PATH", help="another checkout, run as sides of its own")
    parser.add_argument("--processes", type=int, nargs="+", default=PROCESSES, metavar="N")
    parser.add_argument("--claims", type=int, nargs="+", default=CLAIMS, metavar="K", help="documents of one claim")
    parser.add_argument("--customers", type=int, nargs="+", default=CUSTOMERS, metavar="N")
    parser.add_argument("--documents", type=int, metavar="N", help="documents of a cell, or of the flood")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    names = [name for side in MODULES for name in ([side, f"{side}{BEFORE}"] if side in OURS else [side])]
    parser.add_argument("--sides", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    options = parser.parse_args(arguments)
    if options.baseline is not None:
        options.baseline = options.baseline.resolve()
        if not (options.baseline / "src" / "inturn").is_dir():
            parser.error(f"{options.baseline} has no src/inturn")
    elif options.sides and any(side.endswith(BEFORE) for side in options.sides):
        parser.error("sides of another checkout need --baseline")
    if options.sides is None:
        options.sides = names if options.baseline else list(MODULES)
    return options


def _stop(*_: Any) -> None:
    sys.exit("bench fleet: stopped by SIGTERM")


def main(arguments: Sequence[str] = ()) -> int:
    options = parse_options(arguments)
    signal.signal(signal.SIGTERM, _stop)  # so that the server is stopped, as upon Ctrl-C
    with server() as url:
        with psycopg.connect(url) as connection:
            version = connection.info.server_version
        shown = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
        print(f"PostgreSQL {version // 10_000}.{version % 10_000}, {os.cpu_count()} cores: {shown}", flush=True)
        return latency(options, url) if options.latency else throughput(options, url)
