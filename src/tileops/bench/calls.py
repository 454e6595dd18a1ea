"""One case of a workload row as a call on a device, judged by the op's reference.

The data are those of the workload, the rules of judging those of the generated tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tileops import Op
from tileops._core.spec.model import OpSpec
from tileops._core.workload.cases import Case
from tileops._core.workload.tensors import make_arguments
from tileops.bench.clock import Launch
from tileops.testing.calling import assert_close, class_of, expected, parameters, tamed
from tileops.testing.drawing import DrawnCall, form_of

Function = Callable[..., Any]
Outcome = tuple[Tensor | None, ...]
Made = tuple[dict[str, Tensor], Any]

HEADROOM = 8
"""A reference in float64 and its intermediate results take at most about this many times the bytes
of a row; less where it widens the part that it reads."""

MEMORY = Path("/proc/meminfo")
"""Where the system tells of the host's memory."""


@dataclass(frozen=True)
class RowCall:
    """A call that can be made.

    Args:
        form: the call by shapes and dtypes.
        op: the op, constructed.
        names: the inputs by name, in order.
        inputs: the tensors that are passed, by name.
        device: where they lie.
    """

    form: DrawnCall
    op: Op
    names: tuple[str, ...]
    inputs: dict[str, Tensor]
    device: torch.device

    def wanted(self) -> Outcome:
        """What the reference gives; tensors that it creates are on the device of the inputs."""
        with self.device:
            return expected(self.form, self.inputs, str(self.device))

    def wanted_of_cpu(self) -> Outcome:
        """What the reference gives on the CPU, whose arithmetic decides the rounding of codes."""
        given = {name: tensor.cpu() for name, tensor in self.inputs.items()}
        found = expected(self.form, given)
        return tuple(None if each is None else each.to(self.device) for each in found)

    def fault(self, function: Function, wanted: Outcome) -> str | None:
        """What is wrong with a function's results; None where they are the reference's.

        Args:
            function: takes the inputs in order.
            wanted: what the reference gives.
        """
        return self.judged(self.made(function), wanted)

    def made(self, function: Function) -> Made:
        """A call of a function: the copies of the inputs that it took, and what it returned."""
        given = self._copies()
        return given, function(*self._ordered(given))

    def judged(self, made: Made, wanted: Outcome) -> str | None:
        """What is wrong with the results of a call that was made; None where they are right."""
        given, returned = made
        try:
            with self.device:
                assert_close(self.form, given, returned, wanted)
        except AssertionError as error:
            return str(error)
        return None

    def launch(self, function: Function, count: int) -> Launch:
        """Calls of a function on inputs in rotation; what it returns is dropped.

        Args:
            function: takes the inputs in order.
            count: how many sets of inputs there are.
        """
        sets = [self._ordered(self._copies()) for _ in range(count)]
        return lambda turn: function(*sets[turn % count])

    def ours(self, *inputs: Tensor | None) -> Any:
        """The op."""
        return self.op(*inputs)

    def _copies(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.inputs.items()}

    def _ordered(self, given: dict[str, Tensor]) -> list[Tensor | None]:
        return [given.get(name) for name in self.names]


def row_call(spec: OpSpec, case: Case, device: torch.device, target: str | None = None) -> RowCall:
    """The call of a case on a device.

    Args:
        spec: the spec of an implemented op that has a reference.
        case: one of its cases.
        device: where the call runs.
        target: what serves it; the device decides where absent.
    """
    form = form_of(spec, case)
    made = make_arguments(spec, case, device).inputs
    given = {name: tensor for name, tensor in made.items() if tensor is not None}
    op = class_of(spec.name)(**parameters(form, str(device)), target=target)
    names = tuple(spec.signature.inputs)
    return RowCall(form, op, names, tamed(form, given, str(device)), device)


def bytes_of(case: Case) -> int:
    """The size of all tensors and outputs of a case."""
    return sum(form.nbytes for form in (*case.tensors.values(), *case.outputs.values()))


def fits(case: Case, device: torch.device) -> bool:
    """Whether a case and its reference may be tried: a host that is out of memory ends the process.

    A device says so by an error, which `torch.OutOfMemoryError` is.
    """
    return device.type == "cuda" or HEADROOM * bytes_of(case) <= _available()


def _available() -> int:
    """Bytes of the host's memory that can be had, those of cached files among them."""
    told = MEMORY.read_text(encoding="ascii")
    found = re.search(r"^MemAvailable: +(\d+) kB$", told, re.MULTILINE)
    if found is None:  # kernels before 3.14
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 1024 * int(found[1])
