"""Show one op: its signature, parameters, cost, kernels and, on demand, its generated code."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from tileops._core.lang.values import printable
from tileops._core.spec.model import OpSpec
from tileops.cli.contracts import contract_lines, contracts
from tileops.cli.kernel_facts import KernelFacts, kernel_facts
from tileops.cli.options import add_json, add_op
from tileops.cli.output import UsageFault, print_json, table
from tileops.cli.signature_text import gradients_line, parameter_rows, signature_lines
from tileops.cli.specs import class_of, prose_of, row_labels, spec_named, table_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_op(parser)
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument(
        "--source", action="store_true", help="print the code generated from the spec, alone"
    )
    alone.add_argument(
        "--interfaces",
        action="store_true",
        help="print what kernels and builders for the op are written from, alone",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is known about the op."""
    spec = spec_named(args.op)
    if args.source:
        source = _generated_source(spec)
        if args.json:
            print_json({"op": spec.name, "source": source})
        else:
            print(source, end="")
        return 0
    if args.interfaces:
        data = contracts(spec, class_of(spec))
        print_json(data) if args.json else print("\n".join(contract_lines(data)))
        return 0
    kernels = kernel_facts(table_of(class_of(spec))) if spec.status == "implemented" else []
    if args.json:
        print_json(_data(spec, kernels))
    else:
        print("\n\n".join(_sections(spec, kernels)))
    return 0


def _generated_source(spec: OpSpec) -> str:
    from tileops._core.runtime.plan import signature_plan_for

    plan = signature_plan_for(spec.name)
    if plan is None:
        hint = f"`tileops validate {spec.name}` says why"
        raise UsageFault(f"{spec.name} has no generated code: its spec cannot be used; {hint}")
    return plan.source()


def _data(spec: OpSpec, kernels: list[KernelFacts]) -> dict[str, Any]:
    names = ("name", "type", "default", "passed")
    return {
        "op": spec.name,
        "family": spec.family,
        "status": spec.status,
        "mirrors": spec.ref_api,
        "declared_in": str(spec.location),
        "text": prose_of(spec) or None,
        "signature": signature_lines(spec),
        "params": [dict(zip(names, row, strict=True)) for row in parameter_rows(spec)],
        "cost": dict(_cost(spec)),
        "backward": spec.backward.op if spec.backward else None,
        "kernels": [asdict(facts) for facts in kernels],
        "targets": _targets(spec),
        "rows": row_labels(spec),
        "faults": [finding._asdict() for finding in spec.faults],
    }


def _sections(spec: OpSpec, kernels: list[KernelFacts]) -> list[str]:
    """The page's sections, those without content left out."""
    head = f"{spec.name}: {spec.family}, {spec.status}"
    if spec.ref_api:
        head += f", mirrors {spec.ref_api}"
    prose = filter(None, [prose_of(spec)])
    sections = [f"{head}\ndeclared in {spec.location}", *prose, "\n".join(signature_lines(spec))]
    if rows := parameter_rows(spec):
        sections.append(table(("PARAMETER", "TYPE", "DEFAULT", "PASSED BY"), rows))
    if cost := _cost(spec):
        sections.append("\n".join(f"{name} = {text}" for name, text in cost))
    if kernels:
        sections.append(_kernel_table(kernels))
    if spec.composition:
        sections.append(
            "stages: " + ", ".join(f"{s.name} ({s.op or s.kernel})" for s in spec.composition)
        )
    if targets := _targets(spec):
        sections.append(f"targets with a builder for the op: {', '.join(targets)}")
    if gradients := gradients_line(spec):
        sections.append(gradients)
    if labels := row_labels(spec):
        sections.append(f"workload rows: {', '.join(labels)}")
    if spec.faults:
        faults = [f"{f.level} {printable(f.field)}: {f.message}" for f in spec.faults]
        sections.append("\n".join(["this spec has faults:", *faults]))
    return sections


def _targets(spec: OpSpec) -> list[str]:
    """The targets that take over the op as a whole."""
    from tileops._core.targets import registry

    return list(registry.current.targets(spec.name))


def _cost(spec: OpSpec) -> list[tuple[str, str]]:
    roofline = spec.roofline
    if roofline is None:
        return []
    if roofline.func is not None:
        return [("flops, bytes", roofline.func)]
    return [
        ("flops", roofline.flops.text if roofline.flops else "unreadable"),
        ("bytes", roofline.bytes.text if roofline.bytes else "each input once, each output once"),
    ]


def _kernel_table(kernels: list[KernelFacts]) -> str:
    header = ("INTERFACE", "KERNEL", "CLASS", "FROM", "DEVICES", "ARCHS", "ORDER")
    rows = [
        (
            facts.interface,
            facts.key,
            facts.kernel,
            facts.package,
            ", ".join(facts.devices),
            "any" if facts.archs is None else ", ".join(f"sm_{arch}" for arch in facts.archs),
            facts.rank,
        )
        for facts in kernels
    ]
    notes = [f"  {facts.key}: {facts.summary}" for facts in kernels if facts.summary]
    return "\n".join([table(header, rows), *notes])
