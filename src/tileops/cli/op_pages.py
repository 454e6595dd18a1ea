"""Pages of Markdown about ops, made of their specs, docstrings and measured times.

One page a family and an index. Nothing here writes files, and nothing depends on the machine.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from tileops._core import plugins
from tileops._core.spec.model import OpSpec
from tileops.bench.results import Results
from tileops.cli.kernel_facts import KernelFacts, kernel_facts
from tileops.cli.progress import Tell, counted
from tileops.cli.signature_text import gradients_line, parameter_rows, signature_lines
from tileops.cli.specs import class_of, prose_of, table_of

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Measured rows by op, each with the device's name."""

MARK = "<!-- Written by tileops docs from specs, docstrings and results; edits are lost. -->"
"""The first line of every page."""

_COLUMNS = ("case", "device", "kernels", "time", "of the limit", "best other")
_MEASURED = "\n| case | device |"


def is_measured(page: str) -> bool:
    """Whether a page has measured times."""
    return _MEASURED in page


def pages(
    specs: Iterable[OpSpec],
    results: Iterable[Results] = (),
    tell: Tell = lambda _done, _total: None,
) -> dict[str, str]:
    """The pages of ops by file name.

    Args:
        specs: the specs of the ops.
        results: measured times.
        tell: told how many families have theirs, and of how many.
    """
    rows = _measured(results)
    own = sorted(specs, key=lambda spec: spec.family or "")
    families = {family: list(group) for family, group in groupby(own, lambda s: s.family or "")}
    each = counted(list(families.items()), tell)
    made = {f"{family}.md": _page(family, group, rows) for family, group in each}
    return {"README.md": _index(families), **made}


def _measured(results: Iterable[Results]) -> Rows:
    """The right rows of all results by op."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for each in results:
        for row in each.rows:
            if row["state"] == "right" and row["timing"] is not None:
                found.setdefault(row["op"], []).append({**row, "device": each.device(row)})
    return found


def _index(families: Mapping[str, Sequence[OpSpec]]) -> str:
    """Every op with what it is about, by family."""
    count = sum(map(len, families.values()))
    counts = f"{count} op{'s' * (count != 1)} in {len(families)} famil"
    lines = [f"{MARK}\n# Ops\n", f"{counts}{'y' if len(families) == 1 else 'ies'}."]
    for family, group in families.items():
        rows = [
            (f"[{spec.name}]({family}.md#{spec.name.lower()})", _brief(spec), _code(spec.ref_api))
            for spec in group
        ]
        lines += [f"\n## [{family}]({family}.md)\n", *_table(("op", "what", "mirrors"), rows)]
    return "\n".join(lines) + "\n"


def _page(family: str, specs: Sequence[OpSpec], rows: Rows) -> str:
    """One family."""
    homes = dict.fromkeys(spec.home for spec in specs if spec.home)
    docs = (plugins.module(home).__doc__ for home in homes)
    about = "\n\n".join(inspect.cleandoc(doc) for doc in docs if doc)
    sections = ["\n".join(_section(spec, rows.get(spec.name, ()))) for spec in specs]
    return "\n".join([f"{MARK}\n# {family}\n", about, *sections]) + "\n"


def _section(spec: OpSpec, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One op."""
    yield f"\n## {spec.name}\n"
    yield _about(spec)
    yield "\n```text"
    yield from signature_lines(spec)
    yield "```\n"
    if parameters := parameter_rows(spec):
        header = ("parameter", "type", "default", "passed by")
        yield from _table(header, [tuple(map(_code, row[:3])) + row[3:] for row in parameters])
        yield ""
    if cost := _cost(spec):
        yield cost + "\n"
    if spec.status != "implemented":
        yield "Not implemented yet."
        return
    if spec.composition:
        stages = ", ".join(f"{s.name} (`{s.op or s.kernel}`)" for s in spec.composition)
        yield f"Composed of {stages}.\n"
    yield from _kernels(kernel_facts(table_of(class_of(spec))))
    if gradients := gradients_line(spec):
        yield f"\n{gradients[0].upper()}{gradients[1:]}."
    if rows:
        yield ""
        yield from _times(rows)


def _about(spec: OpSpec) -> str:
    """The docstring of the class."""
    if spec.status != "implemented":
        return f"Mirrors `{spec.ref_api}`." if spec.ref_api else ""
    return prose_of(spec)


def _brief(spec: OpSpec) -> str:
    """The first sentence of what an op is about."""
    return _about(spec).partition("\n\n")[0].replace("\n", " ").partition(" Source: ")[0]


def _cost(spec: OpSpec) -> str:
    roofline = spec.roofline
    if roofline is None:
        return ""
    if roofline.func is not None:
        return f"Operations and bytes: `{roofline.func}`."
    flops = f"Operations: `{roofline.flops.text}`. " if roofline.flops else ""
    moved = f"`{roofline.bytes.text}`" if roofline.bytes else "each input and output once"
    return f"{flops}Bytes: {moved}."


def _kernels(facts: Sequence[KernelFacts]) -> Iterator[str]:
    if not facts:
        return
    header = ("interface", "kernel", "devices", "order", "what it does")
    yield from _table(header, [_kernel_row(each) for each in facts])


def _kernel_row(facts: KernelFacts) -> tuple[str, ...]:
    archs = "" if facts.archs is None else " " + ", ".join(f"sm_{arch}" for arch in facts.archs)
    devices = ", ".join(facts.devices) + archs
    return facts.interface, f"`{facts.kernel}`", devices, facts.rank, facts.summary


def _times(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Measured times beside the device's limit and the best other library."""
    yield from _table(_COLUMNS, [_time_row(row) for row in rows])


def _time_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    reading = row["reading"]
    part = f"{reading['efficiency']:.0%} of {reading['limit']}" if reading else ""
    own = row["timing"]["median"]
    others = [
        (other["timing"]["median"], other["name"])
        for other in row["others"]
        if other["state"] == "right" and other["timing"] is not None
    ]
    best = ""
    if others:
        time, name = min(others)
        best = f"{name} {_micro(time)}, ratio {time / own:.2f}"
    kernels = ", ".join(f"`{kernel}`" for kernel in row["kernels"])
    return row["case"], row["device"], kernels, _micro(own), part, best


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table; columns in which no row has anything are left out."""
    found = [tuple(row) for row in rows]
    used = [place for place in range(len(header)) if any(row[place] for row in found)]
    yield _line(header[place] for place in used)
    yield _line("---" for _ in used)
    for row in found:
        yield _line(row[place].replace("|", "\\|").replace("\n", " ") for place in used)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
