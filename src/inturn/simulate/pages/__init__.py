"""Reports as one HTML file each, with charts: nothing from elsewhere, five languages, light and dark."""

from inturn.simulate.pages.advice import advice_page
from inturn.simulate.pages.comparison import comparison_page
from inturn.simulate.pages.fairness import fairness_page
from inturn.simulate.pages.shell import Page

__all__ = ["Page", "advice_page", "comparison_page", "fairness_page"]
