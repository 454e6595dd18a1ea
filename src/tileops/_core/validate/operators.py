"""The operators of a class against the effect branches of its spec: check 50."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from tileops._core.signature import build_plan
from tileops._core.signature.plan import EffectBranch
from tileops._core.spec.model import Finding, OpSpec


class Form(NamedTuple):
    """What a registered operator's schema says of its effects."""

    writes: tuple[str, ...]
    has_out: bool
    returns: int

    def __str__(self) -> str:
        out = " and out" if self.has_out else ""
        return f"(writes {', '.join(self.writes) or 'nothing'}{out}, returns {self.returns})"


def check_operators(spec: OpSpec, cls: Any) -> Iterator[Finding]:
    """One operator per effect branch exactly where the spec wants a compile boundary.

    Args:
        spec: a spec without errors, which yields a plan.
        cls: its class.
    """
    names = tuple(getattr(cls, "compile_op_names", ()))
    if bool(names) != spec.has_boundary:
        wanted = "needs a" if spec.has_boundary else "has no"
        yield _error(spec, f"the spec {wanted} compile boundary, compile_op_names is {names}")
    elif names:
        yield from _compare(spec, names)


def _compare(spec: OpSpec, names: tuple[str, ...]) -> Iterator[Finding]:
    branches = {case.branch for case in build_plan(spec).effects}
    wanted = sorted(_form_of(spec, branch) for branch in branches)
    schemas = [_schema(name) for name in names]
    found = sorted(map(_form_in, schemas))
    if found != wanted:
        shown = "; ".join(map(str, found))
        yield _error(
            spec, f"operators {shown}, but the effect branches are {'; '.join(map(str, wanted))}"
        )
    inputs = list(spec.signature.inputs)
    for name, schema in zip(names, schemas, strict=True):
        arguments = [argument.name for argument in schema.arguments]
        if arguments[: len(inputs)] != inputs or arguments[-1] != "instance_key":
            yield _error(
                spec, f"{name} takes {', '.join(arguments)}; the inputs come first, the key last"
            )


def _form_of(spec: OpSpec, effect: EffectBranch) -> Form:
    """The schema that an effect branch asks for."""
    returned = 0
    for name in effect.emits:
        output = spec.signature.outputs[name]
        is_out = output.buffered and effect.has_out
        returned += not is_out and output.alias not in effect.writes
    return Form(tuple(sorted(effect.writes)), effect.has_out, returned)


def _schema(name: str) -> Any:
    """The schema of a registered operator."""
    namespace, _, short = name.partition("::")
    torch = sys.modules["torch"]
    return getattr(getattr(torch.ops, namespace), short).default._schema


def _form_in(schema: Any) -> Form:
    written = [
        argument.name
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    inputs = tuple(sorted(name for name in written if name != "out"))
    return Form(inputs, "out" in written, len(schema.returns))


def _error(spec: OpSpec, message: str) -> Finding:
    return Finding.of(spec.name, "signature", 50, message)
