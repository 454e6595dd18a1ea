"""Runs a lowered program on tensors, under a schedule."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from emulation.emulator import build
from emulation.emulator.errors import EmulationError
from emulation.emulator.lowering import Launch, Lowered, TensorMap, bind, evaluate
from emulation.emulator.memory import Guarded

_SHARED_LIMIT = 227 * 1024
_MAGIC = 0x7E3A
_ELEMENT_BYTES = {0: 1, 2: 4, 3: 4, 4: 4, 6: 2, 7: 4, 9: 2}  # by the number of a type
_SWIZZLE_BYTES = {1: 32, 2: 64, 3: 128}
_SCALARS = {"float": ctypes.c_float, "int64_t": ctypes.c_int64, "long": ctypes.c_int64}


@dataclass(frozen=True)
class Schedule:
    """How a run deviates from program order.

    Args:
        name: what a test reports.
        late_products: wgmma reads its operands at its wait instead of its issue.
        late_copies: asynchronous copies take a random number of turns.
        random_order: warps and blocks run in random order, some warpgroups slowly.
        seed: of all random choices.
    """

    name: str
    late_products: bool
    late_copies: bool
    random_order: bool
    seed: int = 0


SCHEDULES = (
    Schedule("in order", False, False, False),
    Schedule("late copies", False, True, True, 1),
    Schedule("late products", True, False, True, 2),
    Schedule("all late", True, True, True, 3),
)
"""Enough to find a dropped wait or release: each kind of delay alone, and all together."""


class _Schedule(ctypes.Structure):
    _fields_ = (
        ("late_products", ctypes.c_int),
        ("late_copies", ctypes.c_int),
        ("random_order", ctypes.c_int),
        ("seed", ctypes.c_uint),
    )


class _TensorMap(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_uint64),
        ("rank", ctypes.c_int),
        ("element_bytes", ctypes.c_int),
        ("base", ctypes.c_uint64),
        ("extent", ctypes.c_int64 * 5),
        ("stride", ctypes.c_int64 * 5),
        ("box", ctypes.c_int * 5),
        ("swizzle", ctypes.c_int),
        ("padding", ctypes.c_int * 3),
    )


class Emulator:
    """A program on the emulated device.

    Args:
        lowered: the program.
        folder: where compiled kernels are kept.
    """

    def __init__(self, lowered: Lowered, folder: Path) -> None:
        self._lowered = lowered
        self._folder = folder

    def run(self, *arguments: torch.Tensor | float, schedule: Schedule = SCHEDULES[0]) -> None:
        """Runs the program on CPU tensors, which it may write.

        Raises:
            EmulationError: the device would fault, hang or give an undefined result.
            ValueError: the arguments do not fit the program's parameters.
        """
        values: dict[Any, Any] = {}
        copies = self._bind(arguments, values)
        for step in self._lowered.steps:
            if isinstance(step, TensorMap):
                values[step.name] = _encode(step, values)
            else:
                self._launch(step, values, schedule)
        for copy in copies:
            copy.copy_back()

    def _bind(self, arguments: tuple[Any, ...], values: dict[Any, Any]) -> list[Guarded]:
        """Gives every parameter and every extent its value; returns the copies of the tensors."""
        function = self._lowered.function
        if len(arguments) != len(function.params):
            raise ValueError(f"{len(arguments)} arguments for {len(function.params)} parameters")
        copies: dict[tuple[int, int], Guarded] = {}  # one for arguments that are the same memory
        for parameter, argument in zip(function.params, arguments, strict=True):
            if parameter not in function.buffer_map:
                values[parameter] = argument
                continue
            buffer = function.buffer_map[parameter]
            if len(buffer.shape) != argument.dim():
                raise ValueError(f"{buffer.name} has rank {len(buffer.shape)}")
            for extent, size in zip(buffer.shape, argument.shape, strict=True):
                bind(extent, size, values)
            memory = argument.data_ptr(), argument.nbytes
            if memory not in copies:
                copies[memory] = Guarded(argument)
            values[buffer.name] = values[buffer.data.name] = copies[memory].address
        return list(copies.values())

    def _launch(self, launch: Launch, values: dict[Any, Any], schedule: Schedule) -> None:
        extents = {role: evaluate(value, values) for role, value in launch.extents.items()}
        shared = evaluate(launch.shared, values)
        if shared > _SHARED_LIMIT:
            raise EmulationError(f"{launch.kernel} asks for {shared} bytes of shared memory")
        roles = [f"blockIdx.{axis}" for axis in "xyz"] + ["threadIdx.x"]
        roles += [f"tir.cluster_dim_{axis}" for axis in "xyz"]
        geometry = (ctypes.c_int * len(roles))(*(extents.get(role, 1) for role in roles))
        if 0 in geometry:
            return
        held = [
            _argument(text, value, values)
            for text, value in zip(
                self._lowered.parameters[launch.kernel], launch.arguments, strict=True
            )
        ]
        addresses = (ctypes.c_void_p * len(held))(*(ctypes.addressof(item) for item in held))
        how = _Schedule(
            schedule.late_products, schedule.late_copies, schedule.random_order, schedule.seed
        )
        message = ctypes.c_char_p()
        library = build.kernel(self._lowered, launch.kernel, self._folder)
        machine = ctypes.CDLL(str(build.machine(self._folder)))
        failed = machine.emu_run(
            library.emu_entry, addresses, geometry, max(shared, 1024), ctypes.byref(how),
            ctypes.byref(message),
        )  # fmt: skip
        if failed:
            raise EmulationError(f"{launch.kernel}, {schedule.name}: {message.value.decode()}")


def _argument(parameter: str, value: Any, values: dict[Any, Any]) -> Any:
    """A kernel argument in the memory layout of its C parameter."""
    if "CUtensorMap" in parameter:
        return values[value.name]
    if "*" in parameter:
        return ctypes.c_uint64(evaluate(value, values))
    return _SCALARS.get(parameter.split()[0], ctypes.c_int)(evaluate(value, values))


def _encode(step: TensorMap, values: dict[Any, Any]) -> _TensorMap:
    """What the driver's encoder makes of its arguments, with its checks."""
    numbers = [evaluate(argument, values) for argument in step.arguments]
    kind, rank, base = numbers[:3]
    extents, strides, box, steps = (numbers[3 + i * rank : 3 + (i + 1) * rank] for i in range(4))
    interleave, swizzle = numbers[3 + 4 * rank : 5 + 4 * rank]
    size = _ELEMENT_BYTES[kind]
    faults = {
        "a step other than 1": any(step != 1 for step in steps) or interleave,
        "an inner stride": strides[0] != size,
        "a box of no or more than 256 elements": not all(0 < extent <= 256 for extent in box),
        "an empty tensor": not all(extents),
        "a misaligned base": base % 16,
        "a row pitch that is no multiple of 16 bytes": any(s % 16 for s in strides[1:]),
        "a box row that is no multiple of 16 bytes": box[0] * size % 16,
        "a box row longer than its swizzle": swizzle and box[0] * size > _SWIZZLE_BYTES[swizzle],
    }
    for fault, found in faults.items():
        if found:
            raise EmulationError(f"tensor map {step.name}: {fault} ({numbers})")
    encoded = _TensorMap(magic=_MAGIC, rank=rank, element_bytes=size, base=base, swizzle=swizzle)
    for i in range(rank):
        encoded.extent[i], encoded.box[i] = extents[i], box[i]
        if i:
            encoded.stride[i] = strides[i]
    return encoded
