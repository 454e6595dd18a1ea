"""Names of registered operators: a stem from the class, a suffix from the effect branch."""

from __future__ import annotations

import re

from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import OpSpec

NAMESPACE = "tileops"

_ONE_WORD = (
    "W4A16", "W4A8", "W8A8", "FP8", "INT8", "INT4", "C2C", "TopK", "TopP", "MinP", "MoE", "RoPE",
    "YaRN", "MLP", "FFT", "RMS", "NSA", "MLA", "GQA", "SSD", "MHC",
)  # fmt: skip
_WORD = re.compile(
    rf"(?:{'|'.join(_ONE_WORD)})(?![a-z])"  # a name of the field, whatever its capitals
    r"|[A-Z]+(?=[A-Z][a-z])[0-9]*"  # a run of capitals, up to the one that begins a word
    r"|[A-Z]*[a-z]*[0-9]*[a-z0-9]*"
)


def operator_name(spec: OpSpec, branch: EffectBranch) -> str:
    """The operator's name without its namespace."""
    parts = [_with_family(stem(spec.name), spec.family or "")]
    parts += [f"writes_{name}" for name in sorted(branch.writes)]
    if branch.has_out:
        parts.append("out")
    parts += [f"without_{name}" for name in spec.signature.outputs if name not in branch.emits]
    return "_".join(parts)


def stem(class_name: str) -> str:
    """The class name without its `Op`, in snake case."""
    words = _WORD.findall(class_name.removesuffix("Op"))
    return "_".join(word.lower() for word in words if word)


def _with_family(name: str, family: str) -> str:
    if not family or name == family or name.startswith(f"{family}_"):
        return name
    return f"{family}_{name}"
