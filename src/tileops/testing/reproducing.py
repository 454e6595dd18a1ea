"""A call as a program that makes it: what a person runs to see a fault for themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from tileops._core.spec.names import reference_name
from tileops.testing.calling import class_of, spec_of, tensor
from tileops.testing.drawing import DrawnCall
from tileops.testing.fuzzing import Trial


def program(trial: Trial) -> str:
    """The program of a call.

    Args:
        trial: the call.
    """
    source = _Source()
    params = ", ".join(f"{name}={source.value(value)}" for name, value in trial.params.items())
    lines = [f"op = {source.named(class_of(trial.call.op))}({params})", "given = {"]
    for name, value in trial.given.items():
        lines.append(f"    {name!r}: {_input(trial.call, name, value)},")
    lines += ["}", *_tamed(trial, params), "print(op(**given))"]
    return "\n".join(["import torch", *sorted(source.imports), "", *lines])


class _Source:
    """Values as source, and the imports that it needs."""

    def __init__(self) -> None:
        self.imports: set[str] = set()

    def named(self, kind: type) -> str:
        """The name of a class, imported."""
        self.imports.add(f"from {kind.__module__} import {kind.__name__}")
        return kind.__name__

    def value(self, value: Any) -> str:
        """A parameter; a tensor by its contents, a value of a class of ours by its fields."""
        if isinstance(value, Tensor):
            return f"torch.tensor({value.tolist()}, dtype={value.dtype})"
        if isinstance(value, Enum):
            return f"{self.named(type(value))}.{value.name}"
        if is_dataclass(value) and not isinstance(value, type):
            parts = ((each.name, getattr(value, each.name)) for each in fields(value))
            inner = ", ".join(f"{name}={self.value(part)}" for name, part in parts)
            return f"{self.named(type(value))}({inner})"
        return repr(value)


def _input(call: DrawnCall, name: str, value: Any) -> str:
    """An input: as it was drawn, or what was put in its place."""
    if not isinstance(value, Tensor):
        return repr(value)
    drawn = call.tensors[name]
    dtype, shape = str(value.dtype), tuple(value.shape)
    if (f"torch.{drawn.dtype}", drawn.shape) != (dtype, shape):
        return f"torch.zeros({shape}, dtype={dtype})"
    if drawn.contents is not None:
        return f"torch.tensor({drawn.contents}, dtype={dtype}).reshape({shape})"
    seed = crc32(f"{call} {name}".encode())
    generator = f"generator=torch.Generator().manual_seed({seed})"
    if value.is_floating_point() or value.is_complex():
        return f"torch.randn({shape}, {generator}).to({dtype})"
    high = 2 if value.dtype is torch.bool else 8
    return f"torch.randint(0, {high}, {shape}, {generator}).to({dtype})"


def _tamed(trial: Trial, params: str) -> Iterator[str]:
    """The lines that tame the inputs, where the call's inputs were tamed."""
    call = trial.call
    changed = (
        isinstance(value, Tensor) and not torch.equal(value.float(), tensor(call, name).float())
        for name, value in trial.given.items()
    )
    if trial.spoilt is None and any(changed):
        yield f"from {spec_of(call.op).home} import reference"
        yield f"given = reference.{reference_name(call.op)}_tamed(given, {params})"
