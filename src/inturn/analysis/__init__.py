"""Simulate, replay and measure: the real queue on the memory store with a manual clock."""

from inturn.analysis.engine import Run, simulate_scenario
from inturn.analysis.metrics import GroupReport, Report, build_report
from inturn.analysis.scenario import Scenario, built_in_scenarios, load_scenario

__all__ = [
    "GroupReport",
    "Report",
    "Run",
    "Scenario",
    "build_report",
    "built_in_scenarios",
    "load_scenario",
    "simulate_scenario",
]
