"""Render `inturn top`: a screen for terminals from 80 by 24, or plain tables when piped."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from inturn.cli.durations import format_duration
from inturn.cli.output import WIDER_TERMINAL, Column, print_details, print_table, printable
from inturn.i18n import Texts
from inturn.insights import AtWork, BusyCustomer, CustomerShare, LiveView, Shares
from inturn.insights.explain import STATE_TEXT_KEYS, format_percent
from inturn.model import EXPEDITED_LEVEL, Document, DocumentState, LaneStatus
from inturn.values import SECOND
from inturn.worker_report import Progress

MIN_LEVEL_ROWS: Final = 9
HEADER_LINES: Final = 3
STATES_ALWAYS_SHOWN: Final = (DocumentState.WAITING, DocumentState.RUNNING, DocumentState.DELAYED, DocumentState.DONE)
BAR_CHARACTER: Final = "█"
SHARE_HEADS: Final = ("head_share", "head_fair")
OVER_SHARE_MARK: Final = ">"
MAX_NAME_COLUMNS: Final = 24
"""Terminal columns of a name in a list."""
WORKER_HIGHLIGHTED_AFTER: Final = 15 * SECOND


def render_screen(size: ConsoleDimensions, view: LiveView, shares: Shares, texts: Texts, error: str) -> RenderableType:
    """Render the whole screen within the terminal's size."""
    width, height = size
    levels = _levels_table(view, texts, max(8, width // 2 - 32))
    middle = Table.grid(padding=(0, 3, 0, 0), expand=True)
    middle.add_column()
    middle.add_column(ratio=1)
    middle.add_row(levels, _customers_table(view, shares, texts, with_shares=width >= WIDER_TERMINAL))
    rows = levels.row_count + 1
    left = height - HEADER_LINES - rows - 3
    workers = _workers_table(view, texts, width, max(1, left))
    footer = Text(printable(error), "red") if error else Text(texts.text("top_keys"), "dim")
    footer.truncate(width)
    return Group(*_header(view, texts, width), middle, Text(), workers, footer)


def print_plain(console: Console, view: LiveView, shares: Shares, texts: Texts) -> None:
    """Print the view as plain tables, for a pipe."""
    print_details(console, [(texts.text("label_queue"), _describe_queue(view, texts)), *_totals(view, texts)])
    if view.waiting:
        levels = ("head_level", "head_waiting", "label_oldest")
        columns = [Column(texts.text(key), number=True) for key in levels]
        print_table(console, columns, [(name, texts.number(n), wait) for name, n, wait in _level_rows(view, texts)])
    if view.busiest:
        heads = ("head_customer", "head_waiting", "head_counter", "head_level_now", "head_lines", *SHARE_HEADS)
        columns = [Column(texts.text(key), number=key != "head_customer", folds=True) for key in heads]
        rows = [
            (*_customer_row(busy_customer, texts), *_share_cells(shares.of(busy_customer.customer.name), texts))
            for busy_customer in view.busiest
        ]
        print_table(console, columns, rows)
    if view.at_work:
        workers = ("head_worker", "head_slots", "head_seen", "head_doing")
        columns = [Column(texts.text(key), folds=True) for key in workers]
        print_table(console, columns, _worker_rows(view, texts))


def _worker_rows(view: LiveView, texts: Texts) -> Iterator[tuple[str, ...]]:
    for at_work in view.at_work:
        name, slots, seen, *doing = _worker_row(at_work, view.at, texts)
        yield name, slots, seen, "; ".join(doing)


def _header(view: LiveView, texts: Texts, width: int) -> Iterator[Text]:
    queue = Text(
        f"{texts.text('label_queue')}: {printable(_describe_queue(view, texts))}",
        "bold yellow" if view.paused else "bold",
    )
    queue.truncate(width, overflow="ellipsis")
    yield queue
    totals = Text("   ").join(Text.assemble((f"{label} ", "dim"), value) for label, value in _totals(view, texts))
    totals.truncate(width, overflow="ellipsis")
    yield totals
    yield Text()


def _describe_queue(view: LiveView, texts: Texts) -> str:
    if view.paused is None:
        return texts.text("queue_runs")
    return texts.text("queue_paused", name=view.paused.name, why=view.paused.why or "-")


def _totals(view: LiveView, texts: Texts) -> Iterator[tuple[str, str]]:
    for state in STATES_ALWAYS_SHOWN:
        yield texts.text(STATE_TEXT_KEYS[state]), texts.number(view.states.get(state, 0))
    ended = (DocumentState.FAILED, DocumentState.CANCELLED, DocumentState.EXPIRED)
    yield from (
        (texts.text(STATE_TEXT_KEYS[state]), texts.number(view.states[state]))
        for state in ended
        if view.states.get(state)
    )
    yield texts.text("label_speed"), texts.text("per_second", rate=round(view.per_second, 1))


def _level_rows(view: LiveView, texts: Texts) -> Iterator[tuple[str, int, str]]:
    """List levels 1 to 9, or more if the policy has more, after the expedited documents."""
    last = max([MIN_LEVEL_ROWS, *view.waiting])
    for level in range(EXPEDITED_LEVEL if view.waiting.get(EXPEDITED_LEVEL) else 1, last + 1):
        name = texts.text("level_expedited") if level == EXPEDITED_LEVEL else texts.number(level)
        wait = view.oldest_waits.get(level)
        yield name, view.waiting.get(level, 0), "" if wait is None else format_duration(wait)


def _levels_table(view: LiveView, texts: Texts, bar_width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    table.add_column(texts.text("head_level"), justify="right", no_wrap=True)
    table.add_column("", width=bar_width, no_wrap=True)
    table.add_column(texts.text("head_waiting"), justify="right", no_wrap=True)
    table.add_column(texts.text("label_oldest_short"), justify="right", no_wrap=True)
    largest = max([1, *view.waiting.values()])
    for name, n, wait in _level_rows(view, texts):
        filled = 0 if not n else max(1, round(bar_width * n / largest))
        table.add_row(name, Text(BAR_CHARACTER * filled, "cyan"), texts.number(n), wait)
    return table


def _customers_table(view: LiveView, shares: Shares, texts: Texts, *, with_shares: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0), expand=True)
    table.add_column(texts.text("head_customer"), ratio=1, min_width=8, no_wrap=True, overflow="ellipsis")
    for key in ("head_waiting", "head_counter", "head_level", "head_lines", *(SHARE_HEADS if with_shares else ())):
        table.add_column(texts.text(key), justify="right", no_wrap=True)
    for busy_customer in view.busiest[:MIN_LEVEL_ROWS]:
        name, *rest = _customer_row(busy_customer, texts)
        share = shares.of(busy_customer.customer.name)
        cells = _share_cells(share, texts) if with_shares else ()
        table.add_row(Text(printable(name)), *rest, *cells, style="yellow" if share and share.is_over else "")
    return table


def _share_cells(share: CustomerShare | None, texts: Texts) -> tuple[str, str]:
    """List the actual share of worker time, marked if it is over the fair share, and the fair share."""
    if share is None:
        return "-", "-"
    mark = f"{OVER_SHARE_MARK} " if share.is_over else ""
    return mark + format_percent(share.received, texts), format_percent(share.due, texts)


def _customer_row(busiest: BusyCustomer, texts: Texts) -> tuple[str, ...]:
    customer, level = busiest
    count = "-" if customer.count is None else texts.number(customer.count)
    return customer.name, texts.number(customer.waiting), count, texts.number(level), _describe_lanes(customer.lanes)


def _describe_lanes(lanes: Sequence[LaneStatus]) -> str:
    """List the levels of lanes with waiting documents as ranges, closed lanes in brackets."""
    spans: list[tuple[int, int, bool]] = []
    for lane in sorted(lane for lane in lanes if lane.waiting):
        if spans and spans[-1][1:] == (lane.level - 1, lane.is_open):
            spans[-1] = (spans[-1][0], lane.level, lane.is_open)
        else:
            spans.append((lane.level, lane.level, lane.is_open))
    shown = [(f"{first}" if first == last else f"{first}-{last}", is_open) for first, last, is_open in spans]
    return ",".join(text if is_open else f"({text})" for text, is_open in shown)


def _workers_table(view: LiveView, texts: Texts, width: int, max_rows: int) -> Table:
    """Render a row for each worker and, where there is room, one for each further running document."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0), expand=True)
    table.add_column(texts.text("head_worker"), no_wrap=True, overflow="ellipsis", max_width=width // 3)
    table.add_column(texts.text("head_slots"), justify="right", no_wrap=True)
    table.add_column(texts.text("head_seen"), justify="right", no_wrap=True)
    table.add_column(texts.text("head_doing"), ratio=1, no_wrap=True, overflow="ellipsis")
    if not view.at_work:
        table.add_row(Text(texts.text("none_seen"), "yellow"))
    spare = max_rows - len(view.at_work)
    for at_work in view.at_work[:max_rows]:
        name, slots, seen, *doing = _worker_row(at_work, view.at, texts)
        style = "yellow" if view.at - at_work.worker.seen_at > WORKER_HIGHLIGHTED_AFTER else ""
        own_rows = doing[: 1 + max(0, spare)]
        table.add_row(
            Text(printable(name), style),
            slots,
            seen,
            Text(printable("; ".join([own_rows[0], *doing[len(own_rows) :]]))),
        )
        for further in own_rows[1:]:
            table.add_row("", "", "", Text(printable(further)))
        spare -= len(own_rows) - 1
    return table


def _worker_row(at_work: AtWork, now: int, texts: Texts) -> tuple[str, ...]:
    """List a worker's name, busy slots, time since its last report, and running documents."""
    report = at_work.worker.report
    doing = [
        _describe_running(document, report.progress.get(document.id), texts) for document in at_work.documents
    ] or [""]
    if at_work.claimed_ahead:
        doing[-1] = f"{doing[-1]} (+{texts.number(at_work.claimed_ahead)})".strip()
    if report.stopping:
        doing[0] = f"{texts.text('stopping')} {doing[0]}".strip()
    slots = f"{texts.number(report.busy)}/{texts.number(report.slots)}"
    return report.name, slots, format_duration(max(0, now - at_work.worker.seen_at)), *doing


def _describe_running(document: Document, progress: Progress | None, texts: Texts) -> str:
    title = f"{_truncate(document.customer)}: {_truncate(document.spec.name)}"
    if progress is None:
        return title
    if progress.total:
        return f"{title} {round(100 * progress.done / progress.total)} %"
    return f"{title} {texts.number(progress.done)}"


def _truncate(text: str) -> str:
    return text if cell_len(text) <= MAX_NAME_COLUMNS else f"{set_cell_size(text, MAX_NAME_COLUMNS - 1).rstrip()}…"
