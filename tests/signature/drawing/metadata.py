"""Inputs whose contents have a form: every generator, and predicates that its contents satisfy."""

from __future__ import annotations

import random
from typing import NamedTuple

from signature.drawing.case import Case
from signature.drawing.inputs import add_input
from tileops.manifest import primitives


class Form(NamedTuple):
    """A generator's call, the axes of its tensor, what holds of the contents, what it solves."""

    values: str
    axes: str
    requires: tuple[str, ...] = ()
    solves: str = ""


def of_lengths(c: int) -> list[Form]:
    """Contents that follow from a list of `G` lengths that sum to `P`."""
    return [
        Form("prefix_sum(lens)", "G + 1", ("prefix_offsets(P)", "max_segment(6)"), "G"),
        Form("exclusive_prefix_sum(lens)", "G", ("in_range(0, P + 1)",), "G"),
        Form(f"padded_exclusive_prefix_sum(lens, {c})", "G", ("in_range(0, 99)",), "G"),
        Form("as_tensor(lens)", "G", ("sums_to(P)", "in_range(0, 7)"), "G"),
        Form(f"chunk_offsets(lens, {c})", "G + 1", ("in_range(0, P + 1)",), "G"),
        Form(f"chunk_indices(lens, {c})", "H, 2", ("in_range(0, 9)",), "H"),
        Form("token_indices(lens)", "P, 2", ("in_range(0, 9)",), "P"),
        Form("packed_positions(lens)", "P", ("in_range(0, P)",), "P"),
        Form("key_windows(lens, 0, P, 'start')", "P", ("in_range(0, P)",)),
        Form(f"key_windows(lens, {c}, P - {c}, 'end')", f"P - {c}", ("in_range(0, P + 1)",)),
        Form("nsa_block_indices(lens, 2, 2, 3)", "P, 3, 2", ("in_range(0, P + 1)",), "P"),
    ]


def of_sizes(c: int) -> list[Form]:
    """Contents that a number of rows decides, most of them random."""
    return [
        Form("full((P, 2), k)", "P, 2", ("in_range(k, k + 1)",)),
        Form("paged_block_table(P, 2, 2 * P)", "P, 2", ("in_range(0, 2 * P)",)),
        Form(f"topk_ids(P, {c}, k + {c})", f"P, {c}", (f"in_range(0, k + {c})",)),
        Form("sample_indices(P, P + k)", "P", ("in_range(0, P + k)",)),
        Form("nsa_block_counts(P, 2, k)", "P, 2", ("in_range(1, k + 1)",)),
        Form("causal_topk_indices(1, P, 2, k, P, 0, 1)", "1, P, 2, k", ("in_range(0, P + 1)",)),
    ]


def beside(values: str, c: int) -> list[Form]:
    """What may stand beside a first tensor, constrained by the contents of that."""
    if values == "prefix_sum(lens)":
        return [
            Form(f"chunk_offsets(lens, {c})", "G + 1", (f"chunk_offsets_of(meta, {c})",), "G"),
            Form("as_tensor(lens)", "G", ("attn.paged_fits(meta, 12)",), "G"),
            Form("token_indices(lens)", "P, 2", ("indices_within(meta)",), "P"),
        ]
    if values == "as_tensor(lens)":
        return [Form("exclusive_prefix_sum(lens)", "G", ("exclusive_prefix_of(meta)",), "G")]
    return []


def add_metadata(case: Case) -> None:
    """One or two inputs with contents, with indices that generators may solve."""
    rng, c = case.rng, case.rng.randint(1, 2)
    first = rng.choice([*of_lengths(c), *of_sizes(c)])
    others = beside(first.values, c)
    second = [rng.choice(others)] if others else []
    lens, written = lengths(rng, c)
    values = {"G": len(lens), "P": sum(lens), "H": sum(-(-n // c) for n in lens)}
    if "lens" in first.values:
        case.forall["lens"] = "Seq[Int]"
        case.written["lens"] = written
    solved = {form.solves for form in (first, *second)} - {""}
    for name in sorted({"P"} | solved):
        case.forall[name], case.values[name] = "Dim", values[name]
        case.dims.append(name)
    case.untold |= solved
    for name, form in zip(("meta", "more"), (first, *second), strict=False):
        add_contents(case, name, form)
    add_input(case, "packed", ["P"], "T")


def lengths(rng: random.Random, least: int) -> tuple[list[int], list[int] | str]:
    """Lengths of at least 1 that sum to at least `least`, and as a row has them."""
    count, n = rng.randint(1, 3), rng.randint(least, 5)
    if rng.random() < 0.3:
        return [n] * count, f"repeat({n}, {count})"
    if rng.random() < 0.3:
        total = n + count
        sizes = primitives.balanced_sizes(total, count)
        return sizes, f"balanced_sizes({n} + {count}, {count})"
    sizes = [n, *(rng.randint(1, 5) for _ in range(count - 1))]
    return sizes, sizes


def add_contents(case: Case, name: str, form: Form) -> None:
    """An input with generated contents and some of what holds of them."""
    kept = [requirement for requirement in form.requires if case.rng.random() < 0.7]
    dtype = case.rng.choice(["int32", "int64"])
    add_input(case, name, form.axes.split(", "), dtype, values=form.values, requires=kept)


def add_groups(case: Case) -> None:
    """The metadata of grouped rows: of `X` groups, or of each of the `W` rows."""
    layout = case.values.get("groups")
    if layout is None:
        return
    rng, experts = case.rng, case.rng.randint(1, 3)
    if layout.kind == "masked":
        rows = experts * layout.max_m
    else:
        rows = layout.alignment * rng.randint(0, 4)
    case.forall |= {"W": "Dim", "X": "Dim"}
    case.values |= {"W": rows, "X": experts}
    case.dims += ["W", "X"]
    add_input(case, "rows", ["W", "2 * X"], "T")
    per_row = "groups.kind == 'contiguous' and groups.metadata_kind == 'per_row'"
    requires = ("moe.layout_valid(groups, W, X)",)
    form = Form("moe.layout_metadata(groups, W, X)", f"W if {per_row} else X", requires)
    add_contents(case, "slots", form)
