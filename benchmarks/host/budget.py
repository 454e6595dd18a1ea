"""The budget, in what does not depend on how busy a machine is: counts and ratios.

Instructions of a call beyond its entry are held against those of an empty operator, so that the
version of Python or torch matters little. Where nothing counts instructions, ratios of times stand
in, with room for noise.
"""

from __future__ import annotations

from typing import Any

MOST_OPERATORS = {"RMSNormFwdOp": 2.2, "SiluAndMulFwdOp": 2.1, "GemmFwdOp": 2.5}
"""What a warm call may take beside entry and operator, in empty operators, by instructions."""

NOISE = 1.5
"""What times may be over that."""

MOST = {
    "bytes of an instance": 4096.0,
    "kinds kept of 10000": 4096.0,
    "warm call after 10000 shapes, ratio": 1.3,
    "tensors of callers kept": 0.0,
    "guards, ratio": 1.2,
    "import tileops, MB": 15.0,
    "over those of import torch, ratio": 0.34,
}
"""The most of what is counted or compared."""

MOST_BLOCKS = 500
"""Memory blocks that all calls of the memory test may leave; one a call would be far more."""


def faults(numbers: dict[str, Any]) -> list[str]:
    """What is over budget, a line each."""
    counted = numbers.get("instructions")
    calls, room = (numbers["calls"], NOISE) if counted is None else (counted, 1.0)
    found = []
    for name, most in MOST_OPERATORS.items():
        spent = calls[name]["excess"] / calls[name]["library"]
        if spent > most * room:
            found.append(f"a warm call of {name}: {spent:.2f} empty operators, most {most * room}")
    for name, most in MOST.items():
        if numbers["once"][name] > most:
            found.append(f"{name}: {numbers['once'][name]:.2f}, most {most}")
    for name, value in numbers["once"].items():
        if name.startswith("blocks left") and value > MOST_BLOCKS:
            found.append(f"{name}: {value:.0f}, most {MOST_BLOCKS}")
    return found
