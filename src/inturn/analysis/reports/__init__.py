"""Reports as one HTML file each, with charts: nothing from elsewhere, five languages, light and dark."""

from inturn.analysis.reports.advice import advice_page
from inturn.analysis.reports.comparison import comparison_page
from inturn.analysis.reports.fairness import fairness_page
from inturn.analysis.reports.html_page import Page

__all__ = ["Page", "advice_page", "comparison_page", "fairness_page"]
