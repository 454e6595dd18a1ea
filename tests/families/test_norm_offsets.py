"""Every norm of data that lie far from 0: statistics are wide, and centred before they scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import tileops.norm
from families.conftest import TOLERANCE, Draw
from tileops._core.spec.names import reference_name
from tileops.norm import GroupNormFwdOp, LayerNormFwdOp, reference

DTYPES = [torch.float16, torch.bfloat16, torch.float32]
OFFSET = 300.0
ROUNDING = OFFSET * 2.0**-22
"""What float32 may lose of a mean of that size, in deviations of about 1."""

Given = tuple[dict[str, Any], tuple[Tensor | None, ...]]
"""Parameters of an op, and its inputs."""


class Far:
    """Makes inputs of one dtype."""

    def __init__(self, draw: Draw, dtype: torch.dtype) -> None:
        self._draw, self.dtype = draw, dtype

    def near(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Data around 0."""
        return self._draw(*shape, dtype=dtype or self.dtype)

    def far(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """The same around the offset, as close to each other as the dtype holds."""
        return (self._draw(*shape) + OFFSET).to(dtype or self.dtype)

    def affine(
        self, *shape: int, dtype: torch.dtype | None = None
    ) -> Iterator[tuple[Tensor | None, Tensor | None]]:
        """A weight and a bias: both, either, none."""
        for has_weight, has_bias in product((False, True), repeat=2):
            yield (
                self.near(*shape, dtype=dtype) if has_weight else None,
                self.near(*shape, dtype=dtype) if has_bias else None,
            )


def _rows(data: Far) -> Iterator[Given]:
    for weight, _ in data.affine(130):
        yield {"normalized_shape": [130]}, (data.far(7, 130), weight)


def _centred_rows(data: Far) -> Iterator[Given]:
    for affine in data.affine(130):
        yield {"normalized_shape": [130]}, (data.far(7, 130), *affine)


def _row_gradients(data: Far) -> Iterator[Given]:
    for params, given in _rows(data):
        yield params, (data.far(7, 130), *given)


def _of_rows(*kinds: str) -> Callable[[Far], Iterator[Given]]:
    """Rows or vectors, far from 0 or near it."""

    def given(data: Far) -> Iterator[Given]:
        makers = {"far": data.far, "near": data.near}
        shapes = {"rows": (7, 130), "vector": (130,)}
        split = [kind.split() for kind in kinds]
        yield {}, tuple(makers[where](*shapes[shape]) for where, shape in split)

    return given


def _quantised(data: Far) -> Iterator[Given]:
    for dtype in (torch.int8, torch.float8_e4m3fn):
        yield {"quant_dtype": dtype}, (data.far(7, 130), data.near(7, 130), data.near(130))


def _heads(data: Far) -> Iterator[Given]:
    cache, positions = data.near(9, 32).clamp(-1, 1), torch.arange(5)
    given = data.far(5, 4 * 64), data.near(64), data.near(64), cache, positions
    yield {"num_heads": 2, "num_kv_heads": 1}, given


def _running(choice: str, dtype: torch.dtype | None) -> Callable[[Far], Iterator[Given]]:
    """Norms that may keep statistics: those of the input, kept or not, and those kept."""

    def given(data: Far) -> Iterator[Given]:
        for has_running, uses_input in ((False, True), (True, True), (True, False)):
            for affine in data.affine(6, dtype=dtype):
                wide = torch.float32
                kept = data.far(6, dtype=wide), data.near(6, dtype=wide).square() + 1
                running = kept if has_running else (None, None)
                yield {choice: uses_input}, (data.far(4, 6, 5, 11), *running, *affine)

    return given


def _groups(data: Far) -> Iterator[Given]:
    for groups, affine in product((1, 2, 6), data.affine(6)):
        yield {"num_groups": groups}, (data.far(4, 6, 5, 11), *affine)


def _group_gradients(data: Far) -> Iterator[Given]:
    for params, (x, weight, _) in _groups(data):
        yield params, (data.far(4, 6, 5, 11), x, weight)


def _batch_gradients(data: Far) -> Iterator[Given]:
    x, weight = data.far(4, 6, 5, 11), data.near(6, dtype=torch.float32)
    var, mean = torch.var_mean(x.double(), (0, 2, 3), correction=0)
    yield {}, (data.far(4, 6, 5, 11), x, weight, mean.float(), (var + 1e-5).rsqrt().float())


GIVEN = {
    "RMSNormFwdOp": _rows,
    "RMSNormBwdOp": _row_gradients,
    "FusedAddRMSNormFwdOp": _of_rows("far rows", "near rows", "near vector"),
    "FusedAddRMSNormBwdOp": _of_rows("far rows", "near rows", "far rows", "near vector"),
    "LayerNormFwdOp": _centred_rows,
    "LayerNormBwdOp": _row_gradients,
    "FusedAddLayerNormFwdOp": _of_rows("far rows", "near rows", "near vector", "near vector"),
    "FusedAddLayerNormBwdOp": _of_rows("far rows", "near rows", "far rows", "near vector"),
    "AdaLayerNormFwdOp": _of_rows("far rows", *["near rows"] * 2),
    "AdaLayerNormBwdOp": _of_rows("far rows", "far rows", "near rows"),
    "AdaLayerNormZeroFwdOp": _of_rows("far rows", *["near rows"] * 3),
    "AdaLayerNormZeroBwdOp": _of_rows("far rows", "far rows", *["near rows"] * 3),
    "FusedAddRMSNormPerTokenQuantFwdOp": _quantised,
    "FusedQKNormRoPEFwdOp": _heads,
    "BatchNormFwdOp": _running("training", torch.float32),
    "BatchNormBwdOp": _batch_gradients,
    "GroupNormFwdOp": _groups,
    "GroupNormBwdOp": _group_gradients,
    "InstanceNormFwdOp": _running("use_input_stats", None),
}


def test_no_norm_is_left_out() -> None:
    assert set(GIVEN) == {name for name in tileops.norm.__all__ if name.endswith("Op")}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name, dtype in product(GIVEN, DTYPES)
        if (name, dtype) != ("FusedAddRMSNormPerTokenQuantFwdOp", torch.float32)  # not taken
    ],
    ids=str,
)
def test_norms_of_data_far_from_zero_are_accurate(
    draw: Draw, name: str, dtype: torch.dtype
) -> None:
    for params, given in GIVEN[name](Far(draw, dtype)):
        _assert_accurate(name, params, given)


def _assert_accurate(name: str, params: dict[str, Any], given: tuple[Tensor | None, ...]) -> None:
    """Results, and inputs after the call, are those of the reference."""
    function, copies = getattr(reference, reference_name(name)), _copies(given)
    wanted = _tuple(function(*copies, **params)) + copies
    found = _tuple(getattr(tileops.norm, name)(**params)(*given)) + given
    canonical = getattr(reference, f"{function.__name__}_canonical", None)
    if canonical:
        found, wanted = (canonical(each, *given, **params) for each in (found, wanted))
    passed = [each is not None for each in given]
    for one, other in zip(found, wanted, strict=True):
        _assert_close(one, other, f"{name}({params}) {passed}: {{}}".format)


def _assert_close(found: Tensor | None, wanted: Tensor | None, told: Callable[[str], str]) -> None:
    if found is None or wanted is None:
        assert found is wanted
        return
    bound = TOLERANCE.get(found.dtype, 0.0) + ROUNDING
    wide = wanted.double()
    atol = bound * max(1.0, float(wide.square().mean().sqrt()))
    torch.testing.assert_close(found.double(), wide, rtol=bound, atol=atol, msg=told)


def _copies(given: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    return tuple(None if each is None else each.clone() for each in given)


def _tuple(returned: Any) -> tuple[Tensor | None, ...]:
    if returned is None:
        return ()
    return returned if isinstance(returned, tuple) else (returned,)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_group_of_one_element_gives_the_bias(draw: Draw, dtype: torch.dtype) -> None:
    data = Far(draw, dtype)
    x = data.far(5, 6, 1)
    for weight, bias in data.affine(6):
        found = GroupNormFwdOp(6)(x, weight, bias)
        wanted = torch.zeros(6, dtype=dtype) if bias is None else bias
        assert torch.equal(found, wanted[:, None].expand(5, 6, 1)), (weight, bias)
    for weight, bias in data.affine(1):
        found = LayerNormFwdOp([1])(x, weight, bias)
        wanted = torch.zeros(1, dtype=dtype) if bias is None else bias
        assert torch.equal(found, wanted.expand(5, 6, 1)), (weight, bias)
        fused = tileops.norm.FusedAddLayerNormFwdOp()
        if weight is not None and bias is not None:
            assert torch.equal(fused(x, torch.zeros_like(x), weight, bias)[0], found)


@pytest.mark.parametrize("special", [torch.nan, torch.inf, -torch.inf])
def test_a_lone_element_that_is_not_finite_gives_nan(special: float) -> None:
    x = torch.tensor([[special], [3.0]])
    weight, bias = torch.ones(1), torch.ones(1)
    for found in (LayerNormFwdOp([1])(x, weight, bias), GroupNormFwdOp(1)(x, weight, bias)):
        assert found[0].isnan().all()
        assert torch.equal(found[1], bias)
