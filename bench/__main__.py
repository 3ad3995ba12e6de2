"""`python -m bench [NAME …]`: run all benchmarks, or those named."""

import importlib
import sys

NAMES = ("simulator", "replay", "sqlite", "postgres", "workers", "extract", "http", "celery", "page")


def main() -> None:
    names = sys.argv[1:] or NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    failed = 0
    for name in names:
        print(f"== {name}", flush=True)
        failed += importlib.import_module(f"bench.{name}").main()
    sys.exit(1 if failed else 0)


main()
