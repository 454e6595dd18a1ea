"""What the TileLang kernels of memory-bound ops serve, refuse and share builds for; no device."""

from __future__ import annotations

import pytest
import torch

from tileops.elementwise import AddFwdOp, AlibiFwdOp, SiluFwdOp, SinusoidalFwdOp
from tileops.elementwise.kernels import (
    AlibiCall,
    AlibiTileKernel,
    GatedTileKernel,
    PointwiseCall,
    PointwiseTileKernel,
    SinusoidalCall,
    SinusoidalTileKernel,
)
from tileops.elementwise.kernels.layout import Layout, arrange
from tileops.elementwise.kernels.pointwise import GatedCall
from tileops.norm import (
    AdaLayerNormFwdOp,
    AdaLayerNormZeroFwdOp,
    GroupNormFwdOp,
    InstanceNormFwdOp,
    LayerNormFwdOp,
)
from tileops.norm.kernels import (
    AdaLayerNormCall,
    AdaLayerNormOnChipKernel,
    GroupNormCall,
    GroupNormOnChipKernel,
    InstanceNormCall,
    InstanceNormOnChipKernel,
    LayerNormCall,
    LayerNormOnChipKernel,
)
from tileops.reduction import CumsumFwdOp, SoftmaxFwdOp, SumFwdOp, VarFwdOp, VarMeanFwdOp
from tileops.reduction.kernels import (
    ColumnReductionKernel,
    ReductionCall,
    RowReductionKernel,
    RowScanKernel,
    ScanCall,
    SoftmaxCall,
    SoftmaxOnChipKernel,
    SoftmaxSplitKernel,
    SoftmaxStreamingKernel,
)
from tileops.reduction.kernels.layout import (
    ColumnLayout,
    Geometry,
    RowLayout,
    geometry,
    memory_order,
    reduction_layout,
)
from tileops.reduction.kernels.softmax import are_few
from tileops.rope import RoPEFwdOp
from tileops.rope.kernels import Access, RotaryCall, RotaryTileKernel, access_to

BF16, F16, F32, F64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
HOPPER = {"arch": 90}


def layout_of(*shapes, dtype=BF16) -> Layout:
    return arrange([torch.empty(shape, dtype=dtype) for shape in shapes], dtype.itemsize).layout


@pytest.mark.parametrize(
    ("shapes", "layout"),
    [
        (((4, 6), (4, 6)), Layout(1, (True, True), 8)),
        (((4, 6), ()), Layout(1, (True, False), 8)),
        (((), ()), Layout(1, (True, True), 8)),
        (((4, 64), (1, 64)), Layout(2, (True, True), 8)),
        (((4, 64), (4, 1)), Layout(2, (True, False), 8)),
        (((4, 12), (12,)), Layout(2, (True, True), 4)),
        (((4, 7), (7,)), Layout(2, (True, True), 8, whole=(True, False))),
        (((4, 1), (7,)), Layout(2, (False, True), 1)),
        (((4, 70), (70,)), Layout(2, (True, True), 8, whole=(True, False))),
        (((16, 256, 7, 8), (256, 1, 1)), Layout(3, (True, False), 8)),
    ],
)
def test_axes_that_operands_share_are_merged(shapes, layout: Layout) -> None:
    assert layout_of(*shapes) == layout


def test_numbers_find_every_element() -> None:
    a, b = torch.arange(3 * 5 * 8).view(3, 5, 8), torch.arange(5).view(5, 1) * 1000
    found = arrange([a.int(), b.int()], 4)
    numbers, vector = found.numbers, found.layout.vector
    axes = [numbers[3 * i : 3 * i + 3] for i in range(3)]
    steps = [numbers[9:12], numbers[12:15]]
    for q in range(a.numel() // vector):
        row = q * axes[0][1] >> axes[0][2]
        outer = row * axes[1][1] >> axes[1][2]
        places = (row - outer * axes[1][0], outer)
        offset = [
            (q - row * axes[0][0]) * along
            + sum(p * s for p, s in zip(places, step[1::-1], strict=True))
            for step, along in zip(steps, found.layout.along, strict=True)
        ]
        expected = (a + b).view(-1)[q * vector]
        assert a.view(-1)[offset[0] * vector] + b.view(-1)[offset[1]] == expected


def test_strides_and_addresses_narrow_accesses() -> None:
    base = torch.empty(64, 64, dtype=BF16)
    assert arrange([base[:, 8:24]], 2).layout == Layout(2, (True,), 8)
    assert arrange([base[:, 4:24]], 2).layout == Layout(2, (True,), 4)
    assert arrange([base[:, 1:24]], 2).layout.vector == 1
    assert arrange([base.T], 2).layout == Layout(1, (True,), 8)  # as it lies in a copy


def pointwise(layout, dtype=BF16, inplace=False):
    return PointwiseCall("silu", dtype, dtype, (), inplace, layout, **HOPPER)


FLAT = Layout(1, (True,), 8)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (pointwise(None), "needs to know how the operands lie"),
        (pointwise(FLAT, F64), "has no element type torch.float64"),
        (
            pointwise(Layout(2, (True,), 8), inplace=True),
            "writes in place only where elements lie in one row",
        ),
        (pointwise(Layout(5, (True,), 8)), "broadcasts over at most 4 axes, not 5"),
        (
            pointwise(Layout(2, (True,), 8, wide=True)),
            "broadcasts with indices of 31 bits, which these operands exceed",
        ),
    ],
)
def test_operands_that_are_refused_say_why(call: PointwiseCall, reason: str) -> None:
    assert PointwiseTileKernel.refusal(call) == reason
    assert SiluFwdOp().key_for("unary", call) == "portable"


def test_pointwise_functions_are_served_and_share_builds() -> None:
    assert SiluFwdOp().key_for("unary", pointwise(FLAT)) == "tile"
    layouts = {layout_of((rows, 64), (64,)) for rows in range(1, 501)}
    layouts |= {layout_of((rows, 63), (63,)) for rows in range(1, 501)}
    call = [
        PointwiseCall("add", BF16, BF16, (("alpha", 1),), False, item, **HOPPER) for item in layouts
    ]
    assert len({PointwiseTileKernel.entry_for(item)[0] for item in call}) == 3
    assert AddFwdOp().key_for("binary", call[0]) == "tile"


@pytest.mark.parametrize(
    ("kernel", "call", "reason"),
    [
        (AlibiTileKernel, AlibiCall(64, 65535, BF16, **HOPPER), None),
        (
            AlibiTileKernel,
            AlibiCall(64, 65536, BF16, **HOPPER),
            "makes biases of at most 65535 heads, not 65536",
        ),
        (SinusoidalTileKernel, SinusoidalCall(65535, 64, BF16, **HOPPER), None),
        (
            SinusoidalTileKernel,
            SinusoidalCall(65536, 64, BF16, **HOPPER),
            "makes embeddings of at most 65535 positions, not 65536",
        ),
    ],
)
def test_tensors_made_of_parameters(kernel, call, reason) -> None:
    assert kernel.refusal(call) == reason
    if kernel is AlibiTileKernel:
        op, interface = AlibiFwdOp(seq_len=64, num_heads=8), "alibi"
    else:
        op, interface = SinusoidalFwdOp(seq_len=64, d_model=64), "sinusoidal"
    assert op.key_for(interface, call) == ("portable" if reason else "tile")


def test_gates_share_builds_whatever_their_rows() -> None:
    builds = {
        GatedTileKernel.entry_for(GatedCall("silu", n, BF16, **HOPPER))[0] for n in (8, 64, 4096)
    }
    assert len(builds) == 1


def reduction(layout, function="sum", dtype=BF16, out_dtype=None):
    out_dtype = out_dtype or dtype
    return ReductionCall(function, 2, (1,), False, dtype, out_dtype, layout=layout, **HOPPER)


ROWS = RowLayout(8, False, 128, False)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (reduction(ROWS, "var_mean"), "does not compute var_mean"),
        (reduction(None), "reduces innermost axes of known, positive length"),
        (reduction(ROWS, dtype=torch.complex64), "reduces no complex numbers"),
        (
            reduction(ROWS, dtype=F32, out_dtype=F16),
            "does not round torch.float32 to torch.float16 first",
        ),
    ],
)
def test_reductions_that_are_refused_say_why(call: ReductionCall, reason: str) -> None:
    assert RowReductionKernel.refusal(call) == reason


COLUMNS = ColumnLayout(8, 32, False)


def test_columns_are_for_other_axes() -> None:
    reason = "reduces axes outside kept ones, of known, positive length"
    assert ColumnReductionKernel.refusal(reduction(ROWS)) == reason
    assert ColumnReductionKernel.refusal(reduction(COLUMNS, "var_mean")) == (
        "does not compute var_mean"
    )
    for op, function in ((SumFwdOp(dim=0), "sum"), (VarFwdOp(dim=0), "var")):
        assert op.key_for("reduction", reduction(COLUMNS, function)) == "columns"
    call = reduction(COLUMNS, "var_mean")
    assert VarMeanFwdOp(dim=0).key_for("var_mean", call) == "columns"


def test_rows_are_reduced_by_as_many_threads_as_they_need() -> None:
    assert SumFwdOp(dim=-1).key_for("reduction", reduction(ROWS)) == "rows"
    assert VarFwdOp(dim=-1).key_for("reduction", reduction(ROWS, "var")) == "rows"
    x = torch.empty(2048, 4096, dtype=BF16)
    rows = reduction_layout(x, (1,))
    assert rows == RowLayout(8, False, 128, False)
    assert reduction_layout(x[:, :4095], (1,)) == RowLayout(8, True, 128, False)
    assert reduction_layout(x[:, :64], (1,)) == RowLayout(8, False, 32, False)
    assert reduction_layout(x.view(256, -1), (1,)) == RowLayout(8, False, 1024, False)
    assert reduction_layout(x, (0, 1)) == RowLayout(8, False, 256, True)
    assert reduction_layout(x.view(2048, 1, 4096), (1, 2)) == rows
    assert reduction_layout(x[:, :0], (1,)) is None
    assert reduction_layout(x[:0], (1,)) is None


def test_columns_are_reduced_by_as_many_threads_as_they_need() -> None:
    x = torch.empty(64, 32, 48, dtype=BF16)
    assert reduction_layout(x, (0,)) == ColumnLayout(8, 32, False)
    assert reduction_layout(x[:, :, :33], (1,)) == ColumnLayout(1, 32, False)
    assert reduction_layout(x[:, :, :24], (1,)) == ColumnLayout(8, 8, False)
    assert reduction_layout(x[:, :, :8].reshape(-1, 8), (0,)) == ColumnLayout(8, 1, False)
    assert reduction_layout(x.view(-1, 32), (0,)) == ColumnLayout(8, 8, True)
    rows = RowLayout(8, False, 32, False)
    assert reduction_layout(x, (0, 2)) == ColumnLayout(1, 32, False, rows)
    assert reduction_layout(x.view(2, 32, 32, 48), (1, 3)) == ColumnLayout(1, 32, False, rows)
    assert reduction_layout(x.view(2, 32, 32, 48), (0, 2)) is None


def test_inputs_are_read_in_the_order_of_memory() -> None:
    x = torch.empty(64, 32, 48, dtype=BF16)
    assert memory_order(x) is None
    assert memory_order(x[:, :, ::2]) is None
    turned = x.permute(1, 2, 0)
    assert memory_order(turned) == (2, 0, 1)
    assert reduction_layout(turned, (2,)) == reduction_layout(x, (0,))
    assert reduction_layout(turned, (0, 2)) == reduction_layout(x, (0, 1))


@pytest.mark.parametrize(
    ("shape", "axes", "found"),
    [
        ((4, 6), (1,), (1, 1, 4, 6)),
        ((4, 6), (0,), (1, 4, 6, 1)),
        ((4, 6), (0, 1), (1, 1, 1, 24)),
        ((4, 5, 6), (0, 2), (1, 4, 5, 6)),
        ((2, 3, 4, 5), (1, 3), (2, 3, 4, 5)),
        ((2, 3, 4, 5, 6), (1, 2), (2, 12, 30, 1)),
        ((1, 4, 1, 5), (1,), (1, 4, 5, 1)),
        ((), (), (1, 1, 1, 1)),
        ((4, 6), (), (1, 1, 24, 1)),
        ((2, 3, 4, 5), (0, 2), None),
    ],
)
def test_axes_are_merged_into_matrices_of_rows(shape, axes, found) -> None:
    assert geometry(shape, axes) == (found and Geometry(*found))


def softmax(n, dtype=BF16, out_dtype=None, few=False):
    return SoftmaxCall(2, 1, dtype, out_dtype or dtype, False, n, few, **HOPPER)


def test_softmax_is_chosen_by_the_length_of_rows() -> None:
    op = SoftmaxFwdOp(dim=-1)
    longest = SoftmaxOnChipKernel.LONGEST_ROW
    assert op.key_for("softmax", softmax(longest)) == "on_chip"
    assert op.key_for("softmax", softmax(longest + 1)) == "streaming"
    assert SoftmaxOnChipKernel.refusal(softmax(longest + 1)) == (
        f"holds rows of at most {longest} elements in registers, not {longest + 1}"
    )
    assert op.key_for("softmax", softmax(longest + 1, few=True)) == "split"
    assert SoftmaxSplitKernel.refusal(softmax(longest + 1)) == (
        "shares rows among blocks only where they are few and long"
    )
    assert are_few(64, longest + 1)
    assert not are_few(65, longest + 1)
    assert not are_few(1, longest)
    for call, reason in (
        (softmax(None), "normalises along an innermost axis of known, positive length"),
        (softmax(64, F32, F16), "does not round torch.float32 to torch.float16 first"),
    ):
        assert SoftmaxStreamingKernel.refusal(call) == reason
        assert op.key_for("softmax", call) == "portable"


@pytest.mark.parametrize(
    ("n", "dtype", "reason"),
    [
        (None, F32, "scans along an innermost axis of known, positive length"),
        (64, torch.int64, "scans no torch.int64"),
        (64, F32, None),
    ],
)
def test_scans_of_rows(n, dtype, reason) -> None:
    call = ScanCall("cumsum", 2, 1, dtype, n, **HOPPER)
    assert RowScanKernel.refusal(call) == reason
    assert CumsumFwdOp().key_for("scan", call) == ("portable" if reason else "rows")


def test_rotations_need_an_access() -> None:
    x = torch.empty(2, 5, 4, 64, dtype=BF16)
    assert access_to(x, 64, False, None) == Access(8, 4, None)
    assert access_to(x[..., 1:33], 32, False, None).vector == 1
    assert access_to(x[..., ::2], 32, False, None) is None
    call = RotaryCall("neox", 64, 64, False, BF16, None, **HOPPER)
    assert RotaryTileKernel.refusal(call) == (
        "reads heads without gaps that fit a block, of fewer than 2^31 elements in all"
    )
    assert RoPEFwdOp().key_for("rotary", call) == "portable"


def test_layer_norm_is_held_on_chip() -> None:
    call = LayerNormCall(4096, 1e-5, True, False, BF16, **HOPPER)
    assert LayerNormFwdOp([4096]).key_for("layer_norm", call) == "on_chip"
    assert LayerNormOnChipKernel.entry_for(call)[0] == (4096, BF16, 1e-5, True, False)


def test_groups_of_channels_are_rows() -> None:
    def call(length: int) -> GroupNormCall:
        return GroupNormCall(32, 320, length, 1e-5, True, False, BF16, **HOPPER)

    op, longest = GroupNormFwdOp(32), GroupNormOnChipKernel.LONGEST_ROW // 10
    assert op.key_for("group_norm", call(longest)) == "on_chip"
    assert op.key_for("group_norm", call(longest + 1)) == "portable"
    identity, _ = GroupNormOnChipKernel.entry_for(call(1024))
    assert identity == ((32, 10, 1024), BF16, 1e-5, True, False)


@pytest.mark.parametrize("n", [1024, 100_000])
def test_channels_of_samples_are_rows_without_running_statistics(n: int) -> None:
    def call(running: bool) -> InstanceNormCall:
        return InstanceNormCall(True, 0.1, 1e-5, running, False, True, BF16, 64, n, **HOPPER)

    op = InstanceNormFwdOp()
    assert op.key_for("instance_norm", call(False)) == ("on_chip" if n == 1024 else "portable")
    assert op.key_for("instance_norm", call(True)) == "portable"
    assert InstanceNormOnChipKernel.entry_for(call(False))[0][0] == (64, 1, n)
    reason = "neither uses nor updates running statistics"
    assert InstanceNormOnChipKernel.refusal(call(True)) == reason


def test_adaptive_norms_are_held_on_chip() -> None:
    longest = AdaLayerNormOnChipKernel.LONGEST_ROW
    for n, key in ((longest, "on_chip"), (longest + 1, "portable")):
        for op, gated in ((AdaLayerNormFwdOp(), False), (AdaLayerNormZeroFwdOp(), True)):
            call = AdaLayerNormCall(n, 1e-5, gated, BF16, **HOPPER)
            assert op.key_for("ada_layer_norm", call) == key
