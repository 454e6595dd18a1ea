"""The TileLang programs of kernels from outside, lowered for a device that need not be here.

Calls drawn from an op's signature and its workload rows are followed as on a Hopper GPU, and every
TileLang kernel of a pack or a backend that serves one is built and has its programs lowered: that
of the default configuration for each build, those of all others for the first. Another call that
shares a build has to have its program. That finds what TileLang refuses, and constants that an
identity lacks; it says nothing of what is computed.
Kernels of this library are run by tests of its own, on an emulated device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tileops._core.dispatch import kernel as kernels
from tileops._core.dispatch.call_spec import CallSpec
from tileops._core.dispatch.facts import USUAL
from tileops._core.dispatch.kernel import Kernel
from tileops._core.dispatch.select import judge
from tileops._core.dispatch.toolchain import HOPPER, MISSING, has_tilelang
from tileops._core.op.construct import implementation_table
from tileops._core.op.entries import build_of, kernels_in
from tileops._core.op.explain import explain_elsewhere
from tileops._core.plugins import described
from tileops._core.targets import loading
from tileops._core.validate.code import find_class
from tileops._core.workload.rows import cases_of
from tileops.backend import BUILTIN
from tileops.testing.calling import class_of, parameters, spec_of
from tileops.testing.choice import TREE, runnable_ops
from tileops.testing.drawing import DrawnCall, drawn, form_of

_WHY_NONE = "no generated call and no workload row asks for one, or the first failed"


class Lowered(NamedTuple):
    """A program that was lowered: its kernel's class, its configuration, its CUDA source."""

    kernel: str
    config: str
    source: str


def ops_to_lower(names: Sequence[str] | None) -> list[str]:
    """Those of the chosen ops that have kernels to lower; none without TileLang.

    Args:
        names: as for `chosen_ops`.
    """
    return [op for op in runnable_ops(names) if lowered_kernels(op)] if has_tilelang() else []


def lowered_kernels(op: str) -> dict[str, type[Kernel]]:
    """The TileLang kernels for CUDA that an op has from outside this library, by key."""
    loading.ensure_loaded()
    return {
        key: cls
        for key, cls in implementation_table(class_of(op)).kernel_types.items()
        if cls.needs_tilelang and "cuda" in cls.devices and not _is_ours(cls)
    }


def _assert_same(first: tuple[CallSpec, Lowered], call: CallSpec, found: Lowered) -> None:
    """Calls that share a build share its program."""
    before, program = first
    assert program.source == found.source, (
        f"{found.kernel}: {before.describe()} and {call.describe()} have one identity, so that "
        "what is built for one serves the other, and their programs differ: the identity has to "
        "hold all that is compiled in"
    )


def _is_ours(cls: type[Kernel]) -> bool:
    return cls.__module__.partition(".")[0] == TREE


def lower_all(op: str) -> Iterator[Lowered]:
    """Lower every program of an op's kernels from outside.

    Raises:
        AssertionError: a kernel cannot be built, a program not lowered, or two calls of one
            identity have programs that differ.
    """
    wanted = lowered_kernels(op)
    table = implementation_table(class_of(op))
    seen: dict[tuple[str, Hashable], tuple[CallSpec, Lowered]] = {}
    compared: set[tuple[str, Hashable]] = set()
    tuned: set[str] = set()
    for interface, asked in _requests(op):
        for key in wanted.keys() & set(table.keys_by_interface[interface]):
            cls = wanted[key]
            call = _for_arch(asked, cls)
            if judge(key, cls, call).reason is None:
                build = key, build_of(cls, call)[0]
                if build not in seen:
                    found = list(_lowered(cls, call, tuned=key not in tuned))
                    tuned.add(key)
                    if found:
                        seen[build] = call, found[0]
                    yield from found
                elif build not in compared and call != seen[build][0]:
                    compared.add(build)
                    for found_again in list(_lowered(cls, call, tuned=False))[:1]:
                        _assert_same(seen[build], call, found_again)


def told(ops: Iterable[str], lowered: Counter[tuple[str, str]]) -> Iterator[str]:
    """A line for each TileLang kernel from outside: how many of its programs lower, or why none.

    Args:
        ops: names of the ops that were tested.
        lowered: how many programs of a kernel of an op were lowered.
    """
    for op in ops:
        if isinstance(find_class(spec_of(op)), str):
            continue
        for key, cls in lowered_kernels(op).items():
            count = lowered[op, cls.__name__]
            why = "" if count else f": {_WHY_NONE if has_tilelang() else MISSING}"
            found = f"{count} program{'s' * (count != 1)} lowered{why}"
            yield f"{op}: {key} ({cls.__name__}): {found}"


def _requests(op: str) -> Iterator[tuple[str, CallSpec]]:
    """What calls of an op ask its interfaces, as on a Hopper GPU."""
    spec, device = spec_of(op), torch.device("cuda", 0)
    forms: list[DrawnCall] = [*drawn(op), *(form_of(spec, case) for case in cases_of(spec))]
    for form in forms:
        with FakeTensorMode():
            instance = class_of(op)(**parameters(form, str(device)), target=BUILTIN)
            given = {
                name: torch.empty(
                    form.tensors[name].shape,
                    dtype=getattr(torch, form.tensors[name].dtype),
                    device="cpu" if declared.on_cpu else device,
                )
                for name, declared in spec.signature.inputs.items()
                if name in form.tensors
            }
        report = explain_elsewhere(instance, USUAL["sm_90"], given)
        yield from ((asked.interface, asked.call) for asked in report.interfaces)


def _for_arch(call: CallSpec, cls: type[Kernel]) -> CallSpec:
    """The call on a device that a kernel supports: Hopper where it does, else its first."""
    archs = cls.supported_archs
    arch = HOPPER if archs is None or HOPPER in archs else min(archs)
    return replace(call, **USUAL["sm_90"]._replace(arch=arch)._asdict())


def _lowered(cls: type[Kernel], call: CallSpec, *, tuned: bool) -> Iterator[Lowered]:
    """The programs of what a kernel type builds for a call; if asked, in all configurations."""
    from tileops._programs.lowering import lowering

    facts = USUAL["sm_90"]._replace(arch=call.arch)
    with patch.object(kernels, "device_facts", lambda _: facts), lowering(call.arch) as sources:
        for kernel in kernels_in(build_of(cls, call)[1]()):
            default = kernel.default_config
            others = [each for each in kernel.autotune_configs or () if each != default]
            for config in [default, *(others if tuned else ())]:
                try:
                    kernel.make_program(config)
                except Exception as error:
                    place = f"{type(kernel).__name__} with {dict(config)} for {call.describe()}"
                    raise AssertionError(
                        f"{place}: its program cannot be lowered: {described(error)}"
                    ) from error
                for source in sources:
                    yield Lowered(type(kernel).__name__, str(dict(config)), source)
                sources.clear()
