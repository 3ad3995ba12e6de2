"""A discrete-event simulator that drives the real queue on the memory store with a manual clock."""

from inturn.simulate.engine import Run, run
from inturn.simulate.report import GroupReport, Report, report
from inturn.simulate.scenario import Scenario, built_in, load

__all__ = ["GroupReport", "Report", "Run", "Scenario", "built_in", "load", "report", "run"]
