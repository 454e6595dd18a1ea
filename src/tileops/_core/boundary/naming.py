"""Names of registered operators: a stem from the class, a suffix from the effect branch."""

from __future__ import annotations

from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import OpSpec
from tileops._core.spec.names import words_of

NAMESPACE = "tileops"


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
    return "_".join(words_of(class_name))


def _with_family(name: str, family: str) -> str:
    if not family or name == family or name.startswith(f"{family}_"):
        return name
    return f"{family}_{name}"
