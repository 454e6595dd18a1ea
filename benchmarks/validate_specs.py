"""How long the validator takes for many specs, and how much memory.

Specs are copies of the in-tree ones under other names, without code: 50, 200 and 800 of them, to
see that time grows with their number and no faster. Run from the repository:
`PYTHONPATH=src python benchmarks/validate_specs.py`.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

from tileops import manifest

COUNTS = (50, 200, 800)


def thawed(value: Any) -> Any:
    """A read-only spec as plain data."""
    if isinstance(value, Mapping):
        return {key: thawed(item) for key, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, tuple) else value


def synthetic(count: int) -> dict[str, Any]:
    """So many specs of different names."""
    originals = [(name, thawed(spec)) for name, spec in manifest.specs().items()]
    specs: dict[str, Any] = {}
    while len(specs) < count:
        name, spec = originals[len(specs) % len(originals)]
        copy = {**spec, "status": "spec-only"}
        copy.pop("ref_api", None)
        if "func" in copy["roofline"]:
            copy["roofline"] = {"flops": 1}
        specs[f"{name.removesuffix('FwdOp')}{len(specs)}FwdOp"] = copy
    return specs


def main() -> None:
    """Print a line per count."""
    print(f"{'specs':>6} {'seconds':>8} {'of CPU':>8} {'ms each':>8} {'peak MB':>8}")
    for count in COUNTS:
        source = synthetic(count)
        start, begun = time.perf_counter(), time.process_time()
        report = manifest.validate(source=source)
        seconds, busy = time.perf_counter() - start, time.process_time() - begun
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        each = 1000 * busy / count  # of the processor: others on the machine do not count
        print(f"{count:6} {seconds:8.2f} {busy:8.2f} {each:8.1f} {peak:8.0f}")
        if not report.ok:
            sys.exit("\n".join(map(str, report.findings)))


if __name__ == "__main__":
    main()
