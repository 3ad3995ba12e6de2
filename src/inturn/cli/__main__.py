"""`python -m inturn.cli` is `inturn`."""

from inturn.cli import main

main()
