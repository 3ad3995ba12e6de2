"""Enters the box as if the kernel lacked a layer, then tries every probe: `boxed_probes.py LACKING SCRATCH JSON`.

LACKING is `nothing`, `seccomp`, `user`, `landlock`, or `landlock-N` for a kernel with a Landlock older than version N.
"""

import json
import sys
from pathlib import Path

import probes
from inturn.sandbox import allowed_paths, confinement, landlock, privileges, seccomp


def disable_layer(layer: str) -> None:
    name, _, version = layer.partition("-")
    if name == "landlock":
        known = int(version) - 1 if version else 0
        landlock.version = lambda: known
    elif name == "seccomp":
        seccomp.restrict = lambda: False
    elif name == "user":
        privileges.drop = lambda *_, **__: False


def main() -> None:
    layer, scratch, text = sys.argv[1:]
    targets = {**json.loads(text), "own": scratch}
    disable_layer(layer)
    with Path(targets["blob"]).open("rb") as document:
        targets["document"] = document.fileno()
        readable = [*confinement.needed_paths(), *allowed_paths.loaded_paths(sys.modules), Path(targets["readable"])]
        confinement.enter_sandbox(confinement.SandboxLimits(), readable, Path(scratch))
        # Without seccomp it can fork, and has to: what passes may change the process.
        outcomes = probes.run_all_forked(targets) if layer == "seccomp" else probes.run_all(targets)
    sys.stdout.write(json.dumps(outcomes))


if __name__ == "__main__":
    main()
