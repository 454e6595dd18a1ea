"""A drawn signature with one solution, and Python's own reading of its expressions.

What the language means is worked out here by Python itself: nearly every text of the language is
one of Python, and the rest is put into its words. Nothing of the code under test takes part but
the primitives, which have tests of their own.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from math import prod
from types import SimpleNamespace
from typing import Any

import torch

from tileops._core.lang.dtypes import BITS
from tileops.manifest import primitives

NAME = "DrawnFwdOp"


@dataclass(frozen=True)
class Dense:
    """A constructor with an unbounded field."""

    cols: int
    kind: str = "dense"


@dataclass(frozen=True)
class Tiled:
    """A constructor with a finite field and an invariant."""

    tile: int
    padded: bool
    kind: str = "tiled"


@dataclass(frozen=True)
class Contiguous:
    """A constructor of the one algebraic type that primitives take, with two finite fields."""

    packing: str
    metadata_kind: str
    alignment: int
    kind: str = "contiguous"


@dataclass(frozen=True)
class Masked:
    """The other constructor of it."""

    max_m: int
    kind: str = "masked"


FINITE = {"tiled": ("padded",), "contiguous": ("packing", "metadata_kind")}
"""The fields by which values of a constructor lie on different branches."""

ADTS = {
    "RowStore": {
        "sum": {
            "dense": {"python": f"{__name__}.Dense", "fields": {"cols": "Dim"}},
            "tiled": {
                "python": f"{__name__}.Tiled",
                "fields": {"tile": "Dim", "padded": "Bool"},
                "invariant": "tile > 0",
            },
        }
    },
    "MGroupedLayout": {
        "sum": {
            "contiguous": {
                "python": f"{__name__}.Contiguous",
                "fields": {
                    "packing": "'tight' | 'aligned'",
                    "metadata_kind": "'physical_psum' | 'per_row'",
                    "alignment": "Dim",
                },
                "invariant": "alignment >= 1 and (packing == 'tight') == (alignment == 1)",
            },
            "masked": {"python": f"{__name__}.Masked", "fields": {"max_m": "Dim"}},
        }
    },
}

_LANGUAGE: dict[str, Any] = {
    "__builtins__": {},
    **{name: name for name in BITS},
    **{
        name: getattr(primitives, name)
        for name in (
            "broadcast", "reduced", "valid_axes", "unique_axes", "per_axis", "ceil_div",
            "promote_int_to_float", "coalesce_dtype", "category", "representable",
        )
    },
    "prod": prod,
    **{f.__name__: f for f in (len, sum, max, min, all)},
    "pool": SimpleNamespace(out=primitives.pool.out),
    "conv": SimpleNamespace(out=primitives.conv.out),
    "mhc": SimpleNamespace(expansion=primitives.mhc.expansion),
    "moe": SimpleNamespace(capacity=primitives.moe.capacity),
    "inf": float("inf"),
}  # fmt: skip


@dataclass
class Case:
    """A signature as data, the values that solve it, and what a call of it must give.

    `values` are those that expressions see; `arguments` and `written` are the same parameters as a
    constructor takes them and as a row writes them, `wrong` what their types refuse. Shapes of
    inputs that are not passed are None, and so are those of outputs that are absent.
    """

    rng: random.Random
    values: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    wrong: dict[str, list[Any]] = field(default_factory=dict)
    forall: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    types: dict[str, Any] = field(default_factory=dict)
    lets: dict[str, str] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    combos: list[dict[str, str]] = field(default_factory=list)
    flops: str = "0"
    shapes: dict[str, tuple[int, ...] | None] = field(default_factory=dict)
    untold: set[str] = field(default_factory=set)
    dims: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    passes_out: bool = False

    def spec(self) -> dict[str, Any]:
        """The spec as data."""
        signature = {
            "forall": self.forall,
            "params": self.params,
            "inputs": dict(sorted(self.inputs.items(), key=lambda item: "optional" in item[1])),
            "outputs": self.outputs,
            "types": self.types,
            "let": self.lets,
            "shape_rules": self.rules,
            "dtype_combos": self.combos,
        }
        spec = {
            "family": "drawn",
            "status": "spec-only",
            "signature": {
                name: section for name, section in signature.items() if section or name == "outputs"
            },
            "workloads": [self.row()],
            "roofline": {"flops": self.flops},
        }
        return {NAME: spec, "adts": ADTS}

    def row(self) -> dict[str, Any]:
        """The workload row that stands for the solution."""
        tensors = {**self.params, **self.inputs}
        some = [
            name
            for name, tensor in tensors.items()
            if tensor.get("optional") is True and self.is_there(name)
        ]
        told = [name for name in self.forall if name in self.values and name not in self.untold]
        dtypes = {name: self.values[name] for name in told if "DType" in self.forall[name]}
        lengths = {
            name: list(self.values[name]) if isinstance(self.values[name], tuple)
            else self.values[name]
            for name in told
            if name not in dtypes
        }  # fmt: skip
        row = {**self.written, **lengths, "some": some, "label": "drawn"}
        return {**row, "dtype_cases": [dtypes]} if dtypes else row

    # What the solution makes of the signature

    def is_there(self, name: str) -> bool:
        """Whether a tensor, an output, a `Maybe` parameter or `out` is there."""
        if name == "out":
            return self.passes_out
        if name in self.shapes:
            return self.shapes[name] is not None
        return self.values[name] is not None

    def value(self, text: str) -> Any:
        """What an expression is worth, by Python."""
        python = re.sub(r"\bpresent\((\w+)\)", r"is_there('\1')", text)
        python = re.sub(r"\bbytes\((\w+)\)", r"size_of('\1')", python)
        python = re.sub(r"\b([a-z]\w*)\.value\b", r"\1", python)
        names = {**_LANGUAGE, **self.values, "is_there": self.is_there, "size_of": self.size}
        return eval(python, names)

    def shape(self, text: str) -> tuple[int, ...]:
        """What a list of axes is worth: in Python, too, a star splices."""
        return tuple(self.value(text))

    def dtype(self, name: str) -> str:
        """The dtype of an input, a construction-time tensor or an output."""
        declared = {**self.params, **self.inputs, **self.outputs}[name]
        return str(self.value(declared["dtype"]))

    def size(self, name: str) -> int:
        """The size of a tensor in bytes."""
        return prod(self.shapes[name] or ()) * BITS[self.dtype(name)] // 8

    def empty(self, name: str, shape: tuple[int, ...] | None = None) -> torch.Tensor:
        """A tensor for an input or of an output, of its own shape unless told otherwise."""
        dtype = getattr(torch, self.dtype(name))
        return torch.empty(self.shapes[name] if shape is None else shape, dtype=dtype)
