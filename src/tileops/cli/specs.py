"""Finding specs and op classes by the names given on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tileops._core.spec import registry
from tileops._core.spec.model import OpSpec
from tileops.cli.nearest import further, nearest
from tileops.cli.output import UsageFault
from tileops.errors import OpNotAvailableError

if TYPE_CHECKING:
    import torch

    from tileops import Op
    from tileops._core.dispatch.table import ImplementationTable


def spec_named(name: str) -> OpSpec:
    """The spec of this name.

    Raises:
        UsageFault: there is none; the nearest names are given.
    """
    spec = registry.lookup(name)
    if spec is None:
        missing = unknown("op", name, registry.specs(), "`tileops list` lists all")
        for lost in unloaded():
            raise UsageFault(further(str(missing), lost))
        raise missing
    return spec


def unloaded() -> Iterator[str]:
    """A line on what could not be loaded, where there is such."""
    failed = dict.fromkeys(finding.subject for finding in registry.load_problems())
    if failed:
        yield f"{', '.join(failed)} could not be loaded: `tileops doctor` says why"


def all_specs() -> list[OpSpec]:
    """The specs that are loaded, by name."""
    return [spec for name in sorted(registry.specs()) if (spec := registry.lookup(name))]


def row_labels(spec: OpSpec) -> list[str]:
    """The labels of an op's workload rows, in their order."""
    return [row.label for row in spec.workloads if row and row.label]


def unknown(kind: str, name: str, known: Iterable[str], where: str = "") -> UsageFault:
    """The error for a name of nothing, with the nearest ones or what else leads to a right one.

    Args:
        kind: what is called so.
        name: the name that was given.
        known: the names there are.
        where: where they are listed, if they are too many to be told.
    """
    names = list(known)
    hint = nearest(name, names) or f"; {where or 'known: ' + ', '.join(names)}"
    return UsageFault(f"no {kind} is called {name or repr(name)}{hint}")


def package_of(spec: OpSpec) -> str:
    """Where an op comes from: this package, a pack, or the origin of what running code gave."""
    return spec.home.partition(".")[0] if spec.home else spec.origin


def class_of(spec: OpSpec) -> type[Op]:
    """The class that implements a spec, in the tree or in a pack.

    Raises:
        UsageFault: there is none, or it cannot be imported.
    """
    from tileops._core.validate.code import find_class

    found = find_class(spec)
    if isinstance(found, str):
        if spec.status == "implemented":
            hint = f"`tileops validate {spec.name}` lists what is missing"
            raise UsageFault(f"{spec.name} is implemented, but {found}; {hint}")
        hint = f"`tileops list --status implemented --family {spec.family}` lists what runs"
        raise UsageFault(f"{spec.name} is {spec.status}: {found}; {hint}")
    return found


def prose_of(spec: OpSpec) -> str:
    """What an op computes, as its class says it; nothing where there is no class."""
    from tileops._core.validate.code import find_class

    found = find_class(spec)
    return "" if isinstance(found, str) else inspect.cleandoc(found.__doc__ or "")


def table_of(op: type[Op]) -> ImplementationTable:
    """The implementations of an op class, those that backends added included.

    Raises:
        UsageFault: they contradict each other, so that the op cannot be constructed.
    """
    from tileops._core.op.construct import implementation_table
    from tileops._core.targets import loading

    loading.ensure_loaded()
    try:
        return implementation_table(op)
    except Exception as fault:
        raise UsageFault(f"{fault}; the op cannot be constructed") from fault


def device_named(name: str, otherwise: str = "") -> torch.device:
    """The device of this name, on which tensors can be made.

    Args:
        name: its name.
        otherwise: what else is to be done where it is not there.

    Raises:
        UsageFault: it is not there.
    """
    from tileops._core.devices import usable_device

    try:
        return usable_device(name)
    except OpNotAvailableError as error:
        raise UsageFault(f"{error}; `tileops doctor` lists the devices{otherwise}") from error


def usable_target(name: str | None) -> str | None:
    """The target that was asked for, which is one of those that are registered.

    Raises:
        UsageFault: it is not.
    """
    from tileops import backend
    from tileops._core.targets.registry import WHERE_FROM

    known = (backend.BUILTIN, *backend.registered_targets())
    if name is not None and name not in known:
        raise UsageFault(further(str(unknown("target", name, known)), WHERE_FROM))
    return name
