"""A process that compiles ops which nothing has called before.

Prints one line of JSON for each op named: the operators proven, or the error.
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from tileops.testing.compiling import prove
from tileops.testing.memory import poisoned

Report = dict[str, Any]
"""What became of an op: `{"op", "operators"}` or `{"op", "error"}`."""


def main(ops: Sequence[str]) -> None:
    """Prove each op and print what became of it."""
    warnings.simplefilter("ignore")  # what torch warns of itself is not judged here
    for op in ops:
        report: Report = {"op": op}
        try:
            with poisoned():
                report["operators"] = sorted(prove(op, "inductor"))
        except Exception:
            report["error"] = traceback.format_exc()
        print(json.dumps(report), flush=True)


def prove_in_a_process(ops: Sequence[str]) -> list[Report]:
    """What becomes of ops that are compiled in a new process."""
    program = f"import sys; sys.path[:] = {sys.path!r}; from tileops.testing.cold import main"
    run = subprocess.run(
        [sys.executable, "-c", f"{program}; main({list(ops)!r})"],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(run.stderr)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
