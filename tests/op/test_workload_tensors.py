"""Cases to tensors: data by seed, places, parameters, and calls on the meta device."""

from __future__ import annotations

import enum
import importlib
import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from tileops._core.lang.dtypes import BITS
from tileops._core.spec.content import mapping_content
from tileops._core.spec.manifest import Manifest
from tileops._core.spec.model import OpSpec
from tileops._core.spec.registry import manifest
from tileops._core.spec.source import Source
from tileops._core.workload.cases import TensorForm
from tileops._core.workload.rows import cases_of
from tileops._core.workload.tensors import dtype_of, make_arguments, random_tensor

CPU = torch.device("cpu")


def spec_of(signature: dict[str, Any], rows: list[dict[str, Any]], **more: Any) -> OpSpec:
    data = {
        "family": "norm",
        "status": "spec-only",
        "signature": signature,
        "workloads": rows,
        "roofline": {"flops": 1},
    }
    content = mapping_content({"DataFwdOp": data, **more}, Source("test", package=None))
    spec = Manifest().adding([content]).lookup("DataFwdOp")
    assert spec is not None
    assert spec.faults == ()
    return spec


SIGNATURE: dict[str, Any] = {
    "forall": {"N": "Dim", "B": "Dim", "T": "DType[float16 | int8]", "lens": "Seq[Int]"},
    "params": {
        "held": {"dtype": "float64", "shape": "[N]"},
        "on_host": {"dtype": "int64", "shape": "[2]", "device": "cpu"},
        "spare": {"dtype": "int64", "shape": "[2]", "optional": True},
        "acc": {"type": "float32 | float64", "default": "float32"},
        "name": {"type": "str", "default": "gelu"},
    },
    "inputs": {
        "x": {"dtype": "T", "shape": "[N]"},
        "cu": {"dtype": "int32", "shape": "[B + 1]", "values": "prefix_sum(lens)"},
        "w": {"dtype": "float32", "shape": "[N]", "optional": True},
    },
    "outputs": {"y": {"dtype": "acc", "shape": "[N]"}},
}
ROWS = [{"N": 5, "lens": [2, 3], "dtype_cases": [{"T": "float16"}, {"T": "int8"}], "label": "a"}]


def test_arguments_of_a_case() -> None:
    spec = spec_of(SIGNATURE, ROWS)
    first, second = cases_of(spec)
    made = make_arguments(spec, first, "cpu")
    assert list(made.params) == ["held", "on_host", "acc", "name"]
    assert (made.params["acc"], made.params["name"]) == (torch.float32, "gelu")
    assert made.params["held"].dtype is torch.float64
    assert list(made.inputs) == ["x", "cu", "w"]
    assert made.inputs["w"] is None
    x, cu = made.inputs["x"], made.inputs["cu"]
    assert x is not None
    assert cu is not None
    assert (x.dtype, x.shape, x.is_contiguous()) == (torch.float16, (5,), True)
    assert (cu.tolist(), cu.dtype) == ([0, 2, 5], torch.int32)
    again = make_arguments(spec, next(cases_of(spec)), "cpu").inputs["x"]
    assert again is not None
    assert torch.equal(x, again)
    other = make_arguments(spec, second, "cpu").inputs["x"]
    assert other is not None
    assert other.dtype is torch.int8
    assert set(other.tolist()) <= set(range(8))


def test_tensors_lie_on_the_fallback_or_on_the_host() -> None:
    spec = spec_of(SIGNATURE, ROWS)
    made = make_arguments(spec, next(cases_of(spec)), "meta")
    x = made.inputs["x"]
    assert x is not None
    assert x.is_meta
    assert made.params["held"].is_meta
    assert made.params["on_host"].device == CPU
    assert made.device.type == "meta"


def test_the_parameter_device_goes_before_the_fallback() -> None:
    signature = {
        "params": {
            "n": {"type": "int"},
            "device": {"type": "torch.device | str | None", "default": None},
        },
        "outputs": {"y": {"dtype": "float32", "shape": "[n]"}},
    }
    spec = spec_of(signature, [{"n": 1, "label": "a"}, {"n": 1, "device": "cpu", "label": "b"}])
    first, second = cases_of(spec)
    assert make_arguments(spec, first, "meta").params["device"] == torch.device("meta")
    assert make_arguments(spec, second, "meta").params["device"] == torch.device("cpu")


@pytest.mark.parametrize("dtype", sorted(BITS))
def test_data_of_every_dtype(dtype: str) -> None:
    form = TensorForm((64, 33), dtype)
    data = random_tensor(form, CPU, "Op:case:x")
    assert (data.dtype, tuple(data.shape)) == (dtype_of(dtype), form.shape)
    assert data.is_contiguous()
    assert data.nbytes == form.nbytes
    raw = data.view(torch.uint8)
    assert torch.equal(raw, random_tensor(form, CPU, "Op:case:x").view(torch.uint8))
    assert not torch.equal(raw, random_tensor(form, CPU, "Op:case:z").view(torch.uint8))


def test_what_the_data_is_drawn_from() -> None:
    form = (40_000,)
    normal = random_tensor(TensorForm(form, "float32"), CPU, "a")
    assert abs(normal.mean().item()) < 0.03
    assert abs(normal.std().item() - 1) < 0.03
    half = random_tensor(TensorForm(form, "float16"), CPU, "a")
    assert torch.equal(half, normal.half())
    assert random_tensor(TensorForm(form, "complex64"), CPU, "a").std().item() > 0.9
    integers = random_tensor(TensorForm(form, "uint16"), CPU, "a").to(torch.int64)
    assert set(integers.tolist()) == set(range(8))
    truths = random_tensor(TensorForm(form, "bool"), CPU, "a")
    assert abs(truths.float().mean().item() - 0.5) < 0.02


class Order(enum.Enum):
    ROW = "row"
    COL = "col"


@dataclass(frozen=True)
class Ring:
    n: int
    order: Order
    kind: str = "ring"


def test_an_algebraic_value_is_an_instance_of_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("acme_rings")
    module.Ring, module.Order = Ring, Order  # type: ignore[attr-defined]
    for defined in (Ring, Order):
        monkeypatch.setattr(defined, "__module__", "acme_rings")
    monkeypatch.setitem(sys.modules, "acme_rings", module)
    adts = {
        "Cache": {
            "sum": {
                "ring": {
                    "python": "acme_rings.Ring",
                    "fields": {
                        "n": "Dim",
                        "order": {"type": "'row' | 'col'", "python": "acme_rings.Order"},
                    },
                }
            }
        }
    }
    signature = {
        "params": {"cache": {"type": "Cache"}},
        "outputs": {"y": {"dtype": "float32", "shape": "[cache.n]"}},
    }
    rows = [{"cache": {"ring": {"n": 3, "order": "col"}}, "label": "a"}]
    spec = spec_of(signature, rows, adts=adts)
    made = make_arguments(spec, next(cases_of(spec)), "cpu")
    assert made.params["cache"] == Ring(3, Order.COL)


def test_every_case_of_the_tree_calls_its_op_on_meta_tensors() -> None:
    known = manifest()
    calls = 0
    for name in known.names:
        spec = known.lookup(name)
        if (
            spec is None
            or not spec.in_tree
            or spec.status != "implemented"
            or not spec.has_boundary
        ):
            continue
        cls = getattr(importlib.import_module(f"tileops.{spec.family}"), name)
        for case in cases_of(spec):
            made = make_arguments(spec, case, "meta")
            result = cls(**made.params)(*made.inputs.values())
            outputs = result if isinstance(result, tuple) else (result,)
            found = [tuple(output.shape) for output in outputs if output is not None]
            assert found == [form.shape for form in case.outputs.values()], case.id
            calls += 1
    assert calls > 100
