"""One source unit per op class: printed from a plan, compiled, visible to debuggers.

The text depends on the plan alone, so equal specs give equal text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tileops._core.codegen.call import write_call
from tileops._core.codegen.construction import write_construction
from tileops._core.codegen.context import Context, Phase
from tileops._core.codegen.loading import compile_source
from tileops._core.codegen.outcome import write_effects, write_result_check, write_roofline
from tileops._core.codegen.writer import SourceWriter, identifier
from tileops._core.signature.plan import Plan

_NAMES = "tileops._core.runtime.names"
_WRITERS: tuple[tuple[Phase, Callable[[Context], None]], ...] = (
    ("construction", write_construction),
    ("call", write_call),
    ("call", write_effects),
    ("call", write_result_check),
    ("record", write_roofline),
)


def generate(plan: Plan) -> str:
    """The source of a plan's unit."""
    helpers: set[str] = set()
    parts: list[str] = []
    for phase, write in _WRITERS:
        context = Context.of(plan, phase)
        write(context)
        helpers |= context.lowering.helpers
        parts.append(context.writer.text())
    return _head(plan, helpers) + "".join(parts).rstrip() + "\n"


def _head(plan: Plan, helpers: set[str]) -> str:
    writer = SourceWriter()
    writer.line(f'"""Checks of {identifier(plan.spec.name)}, generated from its spec."""')
    writer.line()
    writer.line("from __future__ import annotations")
    writer.line()
    writer.line("from collections.abc import Mapping")
    writer.line("from typing import Any")
    writer.line()
    ordered = sorted(helpers, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    writer.line(f"from {_NAMES} import (")
    for name in ordered:
        writer.line(f"    {name},")
    writer.line(")")
    return writer.text()


def compile_unit(plan: Plan) -> tuple[str, dict[str, Any]]:
    """The source of a plan's unit, and the namespace of its compiled functions."""
    text = generate(plan)
    return text, compile_source(plan.spec.name, text, {})
