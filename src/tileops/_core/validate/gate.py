"""Which rows can be judged although some fields are at fault.

A fault hides no more than what depends on it: a refinement or a predicate is left out, a tensor's
fault blocks the branches where it is present, a parameter's fault blocks every row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tileops._core.spec.model import Finding, OpSpec, Param
from tileops._core.workload.branch import Branch

_RULE = re.compile(r"signature\.(shape_rules|dtype_combos)\b")
_REQUIREMENT = re.compile(r"signature\.(inputs|params)\.\w+\.requires\b")
_EFFECT = re.compile(r"signature\.(inputs|outputs)\.\w+\.(mutated|write_only|alias|buffer)$")
_PRESENCE = re.compile(r"signature\.(inputs|outputs|params)\.\w+\.(optional|nullable)$")


class Gate:
    """What the errors found so far leave to judge.

    Args:
        spec: the spec.
        findings: the errors of its fields.
    """

    def __init__(self, spec: OpSpec, findings: Iterable[Finding]) -> None:
        self.spec = spec
        self.broken = spec.unknown | {
            found.field for found in findings if found.level == "error" and found.op == spec.name
        }
        self.ignored = frozenset(
            path for path in self.broken if _RULE.match(path) or _REQUIREMENT.match(path)
        )
        self._deciding = {
            path
            for path in self.broken - self.ignored
            if path.partition(".")[0] == "signature" and not _EFFECT.match(path)
        }

    @property
    def closed(self) -> bool:
        """Whether no row can be judged."""
        declared = self.spec.signature.params
        params = [name for name, param in declared.items() if isinstance(param, Param)]
        return self._has_ambiguous_paths() or any(
            path.count(".") < 2
            or path.startswith(("signature.types.", "signature.forall."))
            or _PRESENCE.match(path) is not None
            or any(_is_at(path, f"signature.params.{name}") for name in params)
            for path in self._deciding
        )

    def _has_ambiguous_paths(self) -> bool:
        """Whether a tensor has a name with which paths of fields do not tell their field."""
        signature = self.spec.signature
        tensors = (*signature.params, *signature.inputs, *signature.outputs)
        return not all(map(str.isidentifier, tensors))

    def blocks(self, branch: Branch, present: Iterable[str]) -> bool:
        """Whether rows on a branch cannot be judged.

        Args:
            branch: the branch.
            present: the tensors and outputs that are there.
        """
        owners = [
            *(f"signature.{key}.{name}" for name in present for key in _TENSORS),
            *(f"signature.let.{name}" for name in branch.lets),
        ]
        return any(_is_at(path, owner) for path in self._deciding for owner in owners)

    def judges(self, formula: str) -> bool:
        """Whether a roofline formula can be judged."""
        path = f"roofline.{formula}"
        return not any(_is_at(each, path) or each == "roofline" for each in self.broken)


_TENSORS = ("inputs", "outputs", "params")


def _is_at(path: str, owner: str) -> bool:
    """Whether a path is a field's or lies below it."""
    return path == owner or path.startswith((f"{owner}.", f"{owner}["))
