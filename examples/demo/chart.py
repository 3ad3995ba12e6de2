"""Draw how long each document waited, by when it came: Inturn on the left, first come first served on the right."""

from collections.abc import Sequence

from demo.timings import RunReport
from inturn.analysis.reports.charts import Axes, Panel, scatter_chart
from inturn.analysis.reports.scales import linear_scale


def render_svg(report: RunReport, customers: Sequence[str]) -> str:
    """The whole file."""
    at = [(record.submitted - report.began) / 1e6 for record in report.records]
    ours = [record.wait / 1e6 for record in report.records]
    theirs = [item / 1e6 for item in report.first_come]
    numbers = [customers.index(record.customer) for record in report.records]
    across, up = linear_scale(max(at)), linear_scale(max(*ours, *theirs))

    def panel(title: str, waits: Sequence[float]) -> Panel:
        documents = sorted(zip(numbers, at, waits, strict=True))
        return Panel(title, [(number, across.position(came), up.position(wait)) for number, came, wait in documents])

    about = (
        f"{len(report.records)} documents, {report.slots} at a time; a mark is a document. On both sides the same"
        " arrivals and the same service times."
    )
    axes = Axes(
        [(across.position(tick), f"{tick:g} s") for tick in across.ticks],
        [(up.position(tick), f"{tick:g} s") for tick in up.ticks],
        "when it came",
    )
    panels = [panel("Inturn", ours), panel("First come, first served (computed)", theirs)]
    chart = scatter_chart(("waits", "How long each document waited", about), customers, panels, axes)
    return f"{chart.svg(standalone=True)}\n"
