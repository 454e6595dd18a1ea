"""What is wrong with what plug-ins registered, found without running or building a kernel.

Ops that gained a kernel type are constructed and small calls of them followed, so that every added
implementation is asked what it says of them, on this machine or, if it runs elsewhere, for a device
with stated facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, NamedTuple

from tileops._core.plugins import described, failure_of, labelled
from tileops._core.spec import registry as specs
from tileops.cli.nearest import nearest
from tileops.cli.output import UsageFault
from tileops.cli.specs import all_specs, class_of, table_of
from tileops.errors import ManifestError

if TYPE_CHECKING:
    import torch

    from tileops import Op
    from tileops._core.dispatch.call_spec import CallSpec
    from tileops._core.dispatch.select import Choice
    from tileops._core.dispatch.table import ImplementationTable


class Fault(NamedTuple):
    """What is wrong with a registration, and whose it is; None where several share the fault."""

    owner: EntryPoint | None
    text: str

    def __str__(self) -> str:
        return self.text if self.owner is None else f"{labelled(self.owner)}: {self.text}"


def registration_faults(devices: Iterable[str]) -> list[Fault]:
    """What keeps ops from being constructed or judged, or calls from being served.

    Args:
        devices: the devices of this process, which detectors are asked about.
    """
    faults = [
        *_pack_faults(),
        *_strangers(),
        *_builder_faults(),
        *_kernel_type_faults(),
        *_detector_faults(devices),
    ]
    return list(dict.fromkeys(faults))


def _pack_faults() -> Iterator[Fault]:
    """Ops of packs whose class or spec cannot be used, or whose reference cannot be imported."""
    from tileops._core.runtime.plan import signature_plan_for
    from tileops._core.validate.objects import missing_reference

    for spec in all_specs():
        if spec.in_tree or spec.home is None or spec.status != "implemented":
            continue
        try:
            class_of(spec)
            signature_plan_for(spec.name)
            missing_reference(spec)
        except (UsageFault, ManifestError) as fault:
            yield Fault(specs.owner(spec.name), str(fault))
        except Exception as error:
            reason = f"the reference of {spec.name} cannot be imported: {described(error)}"
            yield Fault(specs.owner(spec.name), reason)


def owner_of(table: str, key: object) -> EntryPoint | None:
    """The plug-in that registered something; None where it is the process's own."""
    from tileops._core.targets import registry

    return registry.owner_of(table, key)


def _strangers() -> Iterator[Fault]:
    """Registrations for ops that nothing here defines or implements."""
    from tileops._core.targets import registry

    known = specs.specs()
    for table in ("builders", "kernel_types"):
        for key in sorted(getattr(registry.current, table)):
            what = f"registers {registered(table, key)}, but"
            spec = specs.lookup(key[0])
            if spec is None:
                swapped = table == "kernel_types" and specs.lookup(key[1]) is not None
                guess = "; op and key are swapped" if swapped else nearest(key[0], known)
                yield Fault(owner_of(table, key), f"{what} no op is called that{guess}")
            elif spec.status != "implemented":
                yield Fault(
                    owner_of(table, key), f"{what} the op has no class: it is {spec.status}"
                )


def registered(table: str, key: tuple[str, str]) -> str:
    """A registration in words."""
    op, name = key
    if table == "builders":
        return f"a builder of target {name!r} for {op}"
    return f"the kernel type {name!r} for {op}"


def _builder_faults() -> Iterator[Fault]:
    """Builders that cannot be called as the spec of their op says."""
    from tileops._core.targets import registry
    from tileops._core.targets.builders import call_fault

    for key, builder in sorted(registry.current.builders.items(), key=lambda item: item[0]):
        spec = specs.lookup(key[0])
        if spec is None:
            continue
        fault = call_fault(builder, spec.signature.inputs, spec.signature.params)
        if fault:
            yield Fault(owner_of("builders", key), f"{registered('builders', key)} {fault}")


def _detector_faults(devices: Iterable[str]) -> Iterator[Fault]:
    import torch

    from tileops._core.targets import registry
    from tileops._core.targets.selection import claims, detected
    from tileops.errors import BackendError

    for device in map(torch.device, devices):
        raising = False
        for target, detect in registry.current.detectors.items():
            failure = failure_of(partial(claims, target, detect, device))
            if failure is not None:
                raising = True
                text = f"the detector of target {target!r} failed on {device}: {described(failure)}"
                is_told = isinstance(failure, BackendError)
                yield Fault(owner_of("detectors", target), str(failure) if is_told else text)
        if not raising:
            try:
                claiming = detected(device)
            except BackendError as fault:
                yield Fault(None, str(fault))
                continue
            if claiming is not None:
                yield from _empty_target(claiming, device)


def _empty_target(target: str, device: torch.device) -> Iterator[Fault]:
    """That a target claims a device and serves nothing there."""
    from tileops._core.targets import registry

    serving = {owner for _, owner in registry.current.builders}
    if target not in serving:
        text = (
            f"target {target!r} claims {device} and has no builder, so that nothing serves ops "
            f"with kernels of their own there{nearest(target, serving)}"
        )
        yield Fault(owner_of("detectors", target), text)


def _kernel_type_faults() -> Iterator[Fault]:
    from tileops._core.targets import registry

    for name in sorted({op for op, _ in registry.current.kernel_types}):
        spec = specs.lookup(name)
        if spec is None or spec.status != "implemented":
            continue
        try:
            cls = class_of(spec)
        except UsageFault as fault:
            yield Fault(specs.owner(name), str(fault))
            continue
        added = registry.added_kernel_types(name)
        try:
            table = table_of(cls)
        except UsageFault as fault:
            yield _contract_fault(cls, added, str(fault))
        else:
            yield from _choice_faults(cls, sorted(added), table)


def _contract_fault(cls: type[Op], added: Mapping[str, Any], text: str) -> Fault:
    """That an op cannot be constructed; the fault of that plug-in without which it could be."""
    from tileops._core.targets import registry

    by_owner: dict[EntryPoint | None, dict[str, Any]] = {}
    for key, kernel_type in added.items():
        by_owner.setdefault(owner_of("kernel_types", (cls.__name__, key)), {})[key] = kernel_type
    culprits = [
        owner
        for owner, mine in by_owner.items()
        if _is_sound(cls, {key: added[key] for key in added if key not in mine})
    ]
    if len(culprits) == 1:
        return Fault(culprits[0], text)
    return Fault(None, f"{text}; {registry.who_added(cls.__name__)}")


def _is_sound(cls: type[Op], added: Mapping[str, Any]) -> bool:
    """Whether an op can be constructed with these kernel types beside its own."""
    from tileops._core.dispatch.table import install

    try:
        install(cls.__name__, cls.interfaces, cls.kernel_types, added)
    except Exception:
        return False
    return True


def _choice_faults(cls: type[Op], added: list[str], table: ImplementationTable) -> Iterator[Fault]:
    """What added implementations get wrong when they are asked about calls."""
    from tileops._core.dispatch.select import choose

    op = cls.__name__
    requests: list[tuple[str, CallSpec]] = []
    failure = failure_of(lambda: requests.extend(_requests(cls)))
    if failure is not None:
        yield Fault(None, f"{op}: small calls cannot be made: {described(failure)}")
        return
    faulty: set[str] = set()
    for interface, call in requests:
        mine = [key for key in added if key in table.keys_by_interface[interface]]
        cases = {key: _for_kernel(call, table.kernel_types[key]) for key in mine}
        for key in sorted(cases.keys() - faulty):
            answers = (_answer_fault(table, interface, key, case) for case in cases.values())
            fault = next(filter(None, answers), None)
            if fault:
                faulty.add(key)
                yield Fault(
                    owner_of("kernel_types", (op, key)), f"{op}, kernel type {key!r}: {fault}"
                )
        for case in () if faulty else cases.values():
            choice = choose(table, interface, case)
            if choice.outcome == "ambiguous":
                yield _ambiguity(op, choice)


def _ambiguity(op: str, choice: Choice) -> Fault:
    """That several implementations serve a call, and none beats the others."""
    from tileops._core.targets import registry

    # What is built in was there before, so a single package is the one at fault.
    owners = {owner_of("kernel_types", (op, key)) for key in choice.unbeaten} - {None}
    both = ", ".join(map(repr, sorted(choice.unbeaten)))
    where = "" if choice.call.device is None else f" on {choice.call.device.type}"
    return Fault(
        owners.pop() if len(owners) == 1 else None,
        f"{op}, interface {choice.interface!r}: {both} serve the same calls{where}, and none is "
        f"preferred_over the others; {registry.who_added(op, choice.unbeaten)}",
    )


def _answer_fault(
    table: ImplementationTable, interface: str, key: str, call: CallSpec
) -> str | None:
    """What is wrong with the answers of one implementation about a call, or None."""
    from tileops._core.dispatch.select import judge
    from tileops._core.op.entries import build_of

    cls = table.kernel_types[key]
    serves = False

    def ask() -> None:
        nonlocal serves
        serves = judge(key, cls, call).reason is None
        if serves:
            build_of(cls, call)

    failure = failure_of(ask)
    if failure is None:
        return None
    member = "entry_for" if serves else "refusal"
    return f"{cls.__name__}.{member} fails on {call.describe()}: {described(failure)}"


def _for_kernel(call: CallSpec, cls: Any) -> CallSpec:
    """The call as it would come to a kernel: where it lies, or on a device of the kernel's type."""
    import torch

    from tileops._core.dispatch.facts import USUAL

    if call.device is None or call.device.type in cls.devices or not cls.devices:
        return call
    facts = USUAL["sm_90"]
    if cls.supported_archs:
        facts = facts._replace(arch=min(cls.supported_archs))
    try:
        device = torch.device(min(cls.devices), 0)
    except RuntimeError:
        return call
    return replace(call, device=device, **facts._asdict())


def _requests(cls: type[Op]) -> Iterator[tuple[str, CallSpec]]:
    """What small calls of an op ask its interfaces, when no added implementation is there."""
    from tileops._core.dispatch.table import install
    from tileops.backend import BUILTIN
    from tileops.testing.calling import inputs, parameters
    from tileops.testing.drawing import drawn

    own = install(cls.__name__, cls.interfaces, cls.kernel_types, {})
    for drawn_call in drawn(cls.__name__):
        instance = cls(**parameters(drawn_call), target=BUILTIN)
        instance._use_table(own)
        for asked in instance.explain(**inputs(drawn_call)).interfaces:
            yield asked.interface, asked.call
