"""`python -m inturn.demo`."""

import sys

from inturn.demo.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
