"""`python -m bench [NAME …]`: run all benchmarks, or those named. `fleet`, `shares`, `search`, `steps` take options."""

import importlib
import sys

NAMES = (
    "simulator",
    "replay",
    "sqlite",
    "postgres",
    "history",
    "queues",
    "steps",
    "fleet",
    "workers",
    "shares",
    "search",
    "extract",
    "http",
    "celery",
    "page",
    "many",
)


def main() -> None:
    arguments = sys.argv[1:]
    first = next((place for place, argument in enumerate(arguments) if argument.startswith("-")), len(arguments))
    names, options = arguments[:first] or NAMES, arguments[first:]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options and names not in (["fleet"], ["shares"], ["search"], ["steps"]):
        sys.exit("only `python -m bench fleet`, `shares`, `search` and `steps` take options")
    failed = 0
    for name in names:
        print(f"== {name}", flush=True)
        benchmark = importlib.import_module(f"bench.{name}")
        failed += benchmark.main(options) if options else benchmark.main()
    sys.exit(1 if failed else 0)


main()
