"""Functions of single elements against torch in float64, special values among them.

One program computes all functions of a group, since compiling is what takes time.

TileLang evaluates the annotations of a program where it is traced, so they are not postponed here.
"""

import math

import pytest
import tilelang.language as T
import torch

from emulation.emulator import Emulator, lower
from tileops._programs.program import GUARDED, Program
from tileops.elementwise import kernels
from tileops.elementwise.ops.pointwise import PointwiseOp
from tileops.elementwise.programs import Element
from tileops.elementwise.programs.functions import FUNCTIONS

SETTINGS = {
    "add": {"alpha": 2}, "sub": {"alpha": 3}, "round": {"decimals": 0},
    "leaky_relu": {"negative_slope": 0.01}, "elu": {"alpha": 1.5},
    "hardtanh": {"min_val": -0.5, "max_val": 1.0}, "gelu": {"approximate": "none"},
    "softplus": {"beta": 1.0, "threshold": 20.0}, "div": {"rounding_mode": None},
    "nan_to_num": {"nan": 1.0, "posinf": 8.0, "neginf": -7.0},
    "clamp": {"min": -1, "max": 0.5}, "lerp": {"weight": 0.75},
}  # fmt: skip
MORE = (
    ("round", {"decimals": 2}), ("round", {"decimals": -1}), ("gelu", {"approximate": "tanh"}),
    ("clamp", {"min": 2, "max": 1}), ("lerp", {"weight": 0.25}), ("add", {"alpha": 1}),
    ("div", {"rounding_mode": "floor"}), ("div", {"rounding_mode": "trunc"}),
)  # fmt: skip
TRUTHS = {"isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or",
          "eq", "ne", "gt", "lt", "ge", "le"}  # fmt: skip
BINARY = {"add", "sub", "mul", "maximum", "minimum", "div", "remainder", "pow", "lerp",
          "eq", "ne", "gt", "lt", "ge", "le", "logical_and", "logical_or",
          "bitwise_and", "bitwise_or", "bitwise_xor"}  # fmt: skip
INTEGERS = {"abs", "neg", "sign", "add", "sub", "mul", "maximum", "minimum", "floor", "ceil",
            "trunc", "round", "logical_not", "eq", "ne", "gt", "lt", "ge", "le", "logical_and",
            "logical_or", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not",
            "isnan", "isinf", "isfinite", "reciprocal"}  # fmt: skip
OF_OTHER_OPERANDS = {"masked_fill", "prelu", "where"}
"""Functions of a mask, or of a row of weights, which other tests compute."""
COUNT = 512
SPECIAL = (math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0, -1.0, 88.0, -88.0, 1e-4, -1e-4, 1e-7,
           math.pi, -1000.0, 6e4)  # fmt: skip


def test_both_tables_have_the_same_functions() -> None:
    differing = set(kernels.FUNCTIONS) ^ set(FUNCTIONS)
    assert not differing, "to be in FUNCTIONS of kernels/pointwise.py and programs/functions.py"


def test_every_parameter_of_a_function_has_a_value_here() -> None:
    waiting = [PointwiseOp]
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        function = getattr(cls, "function", None)
        if cls.__module__.startswith("tileops.") and function not in {None, *OF_OTHER_OPERANDS}:
            lacking = set(cls.settings) - {"inplace", *SETTINGS.get(function, {})}
            told = f"{cls.__name__}: {sorted(lacking)} of {function!r} need values in SETTINGS"
            assert not lacking, f"{told} of tests/emulation/test_device_functions.py"


def chosen(integers: bool):
    """Functions with settings that compute floats, or integers."""
    names = sorted(set(kernels.FUNCTIONS) - OF_OTHER_OPERANDS)
    listed = [(name, SETTINGS.get(name, {})) for name in names] + list(MORE)
    for name, settings in listed:
        whole = name in INTEGERS and settings.get("decimals", 0) == 0
        if whole if integers else not name.startswith("bitwise"):
            yield name, settings


def element(name: str, settings, dtype: str) -> Element:
    arity = 2 if name in BINARY else 1
    is_float = dtype.endswith(("16", "32")) and not dtype.startswith("int")
    result = "bool" if name in TRUTHS else dtype
    if name == "reciprocal" and not is_float:
        result = "float32"
    return Element(name, settings, [dtype] * arity, result, tuple(range(arity)))


def program(elements, dtype: str) -> Program:
    """Every element's value of `(A[i], B[i])`, as float32."""

    @T.prim_func
    def functions(
        A: T.Tensor((COUNT,), dtype),
        B: T.Tensor((COUNT,), dtype),
        Y: T.Tensor((len(elements), COUNT), "float32"),
    ):
        with T.Kernel(1, threads=COUNT):
            i = T.get_thread_binding(0)
            a = T.alloc_local((1,), dtype)
            b = T.alloc_local((1,), dtype)
            a[0] = A[i]
            b[0] = B[i]
            for k in tuple(range(len(elements))):
                Y[k, i] = T.cast(
                    elements[k].value(*(a[0], b[0])[: len(elements[k].stored)]), "float32"
                )

    return Program(functions, GUARDED)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32,
                                   torch.int8, torch.uint8])  # fmt: skip
def test_functions_are_those_of_torch(dtype: torch.dtype, compiled) -> None:
    generator = torch.Generator().manual_seed(3)
    a, b = (torch.randn(COUNT, generator=generator) * 4 for _ in range(2))
    listed = list(chosen(not dtype.is_floating_point))
    if dtype.is_floating_point:
        pairs = torch.cartesian_prod(torch.tensor(SPECIAL), torch.tensor(SPECIAL))
        a[: len(pairs)], b[: len(pairs)] = pairs.unbind(1)
        a, b = a.to(dtype), b.to(dtype)
    else:
        a, b = (a * 30).int().to(dtype), (b * 30).int().to(dtype)
    name = str(dtype).removeprefix("torch.")
    elements = [element(function, settings, name) for function, settings in listed]
    y = torch.full((len(elements), COUNT), torch.nan)
    Emulator(lower(program(elements, name)), compiled).run(a, b, y)
    tolerance = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}.get(dtype, 4e-6)
    for (function, settings), found in zip(listed, y, strict=True):
        wide = [x.double() if dtype.is_floating_point else x for x in (a, b)]
        arity = 2 if function in BINARY else 1
        exact = kernels.FUNCTIONS[function](*wide[:arity], **settings)
        if dtype.is_floating_point and function not in TRUTHS:
            exact = exact.to(dtype)
        torch.testing.assert_close(
            found.double(), exact.double(), rtol=tolerance, atol=1e-6, equal_nan=True,
            msg=lambda text, at=(function, settings): f"{at}: {text}",
        )  # fmt: skip
