"""What looks like a slip in what plug-ins registered, and may be meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileops._core.spec import registry as specs
from tileops.cli.nearest import nearest
from tileops.cli.output import UsageFault
from tileops.cli.plugin_faults import Fault, owner_of, registered
from tileops.cli.specs import class_of


def registration_advice() -> list[Fault]:
    """Builders that name inputs in another order, and preferences over keys that are not there."""
    return [*_orders(), *_absent_preferences()]


def _orders() -> Iterator[Fault]:
    from tileops._core.targets import registry
    from tileops._core.targets.builders import order_fault

    for key, builder in sorted(registry.current.builders.items(), key=lambda item: item[0]):
        spec = specs.lookup(key[0])
        fault = None if spec is None else order_fault(builder, spec.signature.inputs)
        if fault:
            yield Fault(owner_of("builders", key), f"{registered('builders', key)} {fault}")


def _absent_preferences() -> Iterator[Fault]:
    """The keys may be those of a package that is not installed, or misspelt."""
    from tileops._core.targets import registry

    for (op, key), kernel_type in sorted(registry.current.kernel_types.items()):
        known = [*_own_keys(op), *registry.added_kernel_types(op)]
        for absent in sorted({*_preferred(kernel_type)} - {*known}):
            guess = nearest(absent, set(known) - {key})
            yield Fault(
                owner_of("kernel_types", (op, key)),
                f"{registered('kernel_types', (op, key))} is preferred_over {absent!r}, and "
                f"nothing is registered under that key{guess}",
            )


def _own_keys(op: str) -> Iterator[str]:
    """The keys that an op class declares; none where there is no class."""
    spec = specs.lookup(op)
    if spec is not None and spec.status == "implemented":
        try:
            yield from class_of(spec).kernel_types
        except UsageFault:
            return


def _preferred(kernel_type: Any) -> tuple[str, ...]:
    """What a class prefers itself to; nothing where that cannot be read, which is a fault."""
    try:
        return tuple(kernel_type.preferred_over)
    except Exception:
        return ()
