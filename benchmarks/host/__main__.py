"""What the host pays for ops: warm calls and their parts, first calls, imports, graphs, memory.

    python benchmarks/host                  # all of it, as tables
    python benchmarks/host --check          # hold the budget, by ratios and instruction counts
    python benchmarks/host --device cuda    # warm calls on a GPU; nothing waits for it

Times are of this machine and vary with its load; counts and ratios do not.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

import budget
import counts
import graphs
import once
from calls import functions_of, subjects
from clock import least
from steps import steps_of

Table = dict[str, dict[str, float]]

FIRST_OP = "from tileops.norm import RMSNormFwdOp"

PADDINGS = (500, 1000, 2000, 3000, 5000)
"""How far memory is moved before a budget counts as broken."""


def warm_calls(device: str, repeats: int) -> tuple[Table, Table]:
    """Microseconds of the compared calls, and of the parts of the op's."""
    settle = torch.cuda.synchronize if device == "cuda" else lambda: None
    calls, parts = {}, {}
    for name, subject in subjects(device).items():
        times = least(functions_of(subject), repeats, settle)
        times["excess"] = times["op"] - times["entry"] - times["library"]
        times["over base"] = times["op"] - times["base"]
        calls[name] = times
        parts[name] = least(steps_of(subject), repeats, settle)
    return calls, parts


def instructions(padding: int = 0) -> tuple[Table, Table]:
    """The same as `warm_calls` in instructions; `padding` as for `counts.count`."""
    calls, parts = {}, {}
    for name, counted in counts.count(padding).items():
        labels = ("entry", "library", "base", "inside", "custom_op", "torch", "op")
        calls[name] = {label: counted[label] for label in labels}
        calls[name]["excess"] = counted["op"] - counted["entry"] - counted["library"]
        calls[name]["over base"] = counted["op"] - counted["base"]
        parts[name] = {label: n for label, n in counted.items() if label not in labels}
    return calls, parts


def paid_once(device: str, calls: int) -> dict[str, float]:
    """Everything that is not a warm call, by name."""
    first, second = once.first_called(device)
    kinds, slower = once.after_many_shapes()
    guards = graphs.guard_times()
    found = {
        "construction, us": once.constructed(),
        "first call of a shape, us": first,
        "second call of it, us": second,
        "bytes of an instance": once.instance_bytes(),
        f"blocks left by {calls} calls over 1000 shapes": once.blocks_left(calls),
        "kinds kept of 10000": kinds,
        "warm call after 10000 shapes, ratio": slower,
        "tensors of callers kept": float(once.keeps_tensors()),
        "guards of 32 ops, us": guards["ops"],
        "guards of 32 hand-written operators, us": guards["hand-written"],
        "guards, ratio": guards["ops"] / guards["hand-written"],
    }
    for statement, before in (("import tileops", ""), (FIRST_OP, "import torch")):
        found[f"{statement}, ms"], found[f"{statement}, MB"] = once.imported(statement, before)
    calls = once.import_calls(FIRST_OP, "import torch")
    found["function calls of that import"] = calls
    found["over those of import torch, ratio"] = calls / once.import_calls("import torch")
    return found


def over_budget(numbers: dict[str, Any]) -> list[str]:
    """What is over budget, also when counted in processes whose memory lies elsewhere.

    The counts of one process vary by up to a tenth with the places that its memory has.
    """
    faults = budget.faults(numbers)
    for padding in PADDINGS:
        if not faults or "instructions" not in numbers:
            break
        again, _ = instructions(padding)
        for name, row in again.items():
            if row["excess"] < numbers["instructions"][name]["excess"]:
                numbers["instructions"][name] = row
        faults = budget.faults(numbers)
    return faults


def show(title: str, table: Table, digits: int) -> None:
    """Print a table with a line per op."""
    columns = list(next(iter(table.values())))
    print(f"\n{title:16}" + "".join(f"{column:>11}" for column in columns))
    for name, row in table.items():
        print(f"{name:16}" + "".join(f"{row[column]:11.{digits}f}" for column in columns))


def main() -> int:
    """Measure, print, and hold the budget where that is asked for."""
    parser = argparse.ArgumentParser(description="Host time of ops")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--check", action="store_true", help="hold the budget")
    parser.add_argument("--repeats", type=int, default=2000, help="runs of each function")
    parser.add_argument("--calls", type=int, default=100_000, help="calls of the memory test")
    parser.add_argument("--json", type=Path, help="also write the numbers there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {device_name(options)}")
    numbers: dict[str, Any] = {}
    numbers["calls"], numbers["parts"] = warm_calls(options.device, options.repeats)
    show("microseconds", numbers["calls"], 2)
    show("parts", numbers["parts"], 2)
    if options.device == "cpu" and counts.is_available():
        numbers["instructions"], numbers["instructions of parts"] = instructions()
        show("instructions", numbers["instructions"], 0)
        show("parts", numbers["instructions of parts"], 0)
    numbers["once"] = paid_once(options.device, options.calls)
    print()
    for name, value in numbers["once"].items():
        print(f"{name:56}{value:12.2f}")
    if options.json is not None:
        options.json.write_text(json.dumps(numbers, indent=1), encoding="utf-8")
    faults = over_budget(numbers) if options.check else []
    for fault in faults:
        print(f"over budget: {fault}", file=sys.stderr)
    return bool(faults)


def device_name(options: argparse.Namespace) -> str:
    """What the table says it was measured on."""
    if options.device == "cuda":
        return f"{torch.cuda.get_device_name()}, host {platform.machine()}"
    return f"{platform.machine()} host"


if __name__ == "__main__":
    sys.exit(main())
