"""Arguments no kernel takes: unusual tensors, scalars that no operator can carry, odd values."""

from __future__ import annotations

import re

import pytest
import torch
from torch._subclasses import FakeTensorMode
from toys import ADD_SPEC, add_op, body_op, define, tensor

from tileops import Op
from tileops.errors import SignatureError, SignatureTypeError

N = 4


def matrix():
    return torch.randn(N, N)


def written(self, x, y):
    return x.add_(y)


def into(self, x, out=None):
    return x + 1 if out is None else torch.add(x, 1, out=out)


def scalars(self, x, k: int = 1, s: float = 1.0, m: str = ""):
    return x.clone()


def composite(inner):
    def init(self, alpha=1.0, *, target=None):
        self.alpha = alpha
        Op.__init__(self, target=target)

    def forward(self, x, y):
        return self.delegate_for("add", (), alpha=self.alpha)(x, y)

    stages = {"kind": "composite", "stages": [{"name": "add", "op": inner.__name__}]}
    declared = {**ADD_SPEC, "composition": stages}
    members = {"__init__": init, "forward": forward, "delegate_types": {"add": inner}}
    return define("Whole", declared, **members)


UNUSUAL = {
    "sparse": (lambda: matrix().to_sparse(), "expected a strided tensor, got layout sparse_coo"),
    "rows": (lambda: matrix().to_sparse_csr(), "expected a strided tensor, got layout sparse_csr"),
    "opaque": (lambda: matrix().to_mkldnn(), "expected a strided tensor, got layout _mkldnn"),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "expected a strided tensor, got a nested one",
    ),
    "jagged": (
        lambda: torch.nested.nested_tensor(
            [torch.ones(2), torch.ones(3)], layout=torch.jagged
        ),
        "expected a strided tensor, got a nested one",
    ),
    "uninitialized": (
        torch.nn.UninitializedParameter,
        "expected a tensor with a shape, got an uninitialized one",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning", "ignore:.*nested tensors:UserWarning")
@pytest.mark.parametrize("which", UNUSUAL)
@pytest.mark.parametrize("whole", [False, True])
def test_a_tensor_that_is_not_strided(which, whole):
    make, text = UNUSUAL[which]
    strange, cls = make(), add_op()
    op = (composite(cls) if whole else cls)(2.0)
    for arguments, path in (((strange, matrix()), "x"), ((matrix(), strange), "y")):
        with pytest.raises(SignatureError) as caught:
            op(*arguments)
        assert type(caught.value) is SignatureError
        assert str(caught.value).split("\n")[0] == f"{op._name} (call): inputs.{path}: {text}"


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_a_sparse_buffer_result_and_construction_time_tensor():
    op = body_op("Into", {"x": tensor()}, {"y": tensor(buffer="out")}, into)()
    with pytest.raises(SignatureError, match=r"\(call\): out: expected a strided tensor, got layo"):
        op(matrix(), out=matrix().to_sparse())
    for thin in (torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr, torch.Tensor.to_mkldnn):
        bad = body_op("Thin", {"x": tensor()}, {"y": tensor()}, lambda self, x: thin(x))  # noqa: B023
        with pytest.raises(SignatureError, match=r"outputs.y: expected a strided tensor, got lay"):
            bad()(matrix())
    held = {"w": {"dtype": "T", "shape": "[*S]"}}
    holder = body_op("Holder", {"x": tensor()}, {"y": tensor()}, lambda self, x: x + self.w, held)
    with pytest.raises(SignatureError, match=r"params.w: expected a strided tensor, got layout"):
        holder(matrix().to_sparse())


@pytest.mark.parametrize("word", ["conjugated", "negated"])
def test_a_lazy_tensor_can_be_read_and_not_written(word):
    values = torch.randn(N, dtype=torch.complex64).conj()
    lazy = values if word == "conjugated" else values.imag
    kind = {"signature": {"forall": {"S": "Shape", "T": "DType[float32 | complex64]"}}}
    inputs = {"x": tensor(mutated=True), "y": tensor()}
    op = body_op("Write", inputs, {"z": tensor(alias="x")}, written, **kind)()
    text = rf"inputs.x: a lazily {word} tensor cannot be written; resolve it first"
    with pytest.raises(SignatureError, match=text):
        op(lazy, lazy)
    x = torch.zeros(N, dtype=lazy.dtype)
    torch.testing.assert_close(op(x, lazy), lazy.resolve_conj().resolve_neg())


def test_tensors_of_other_classes_are_taken():
    class Marked(torch.Tensor):
        pass

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, held):
            return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)

        def __init__(self, held):
            self.held = held

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            bare = [each.held if isinstance(each, cls) else each for each in args]
            return function(*bare, **(kwargs or {}))

    inner = add_op()
    for cls in (inner, composite(inner)):
        op, x = cls(2.0), matrix()
        for strange in (x.as_subclass(Marked), Wrapper(x), torch.nn.Parameter(x, False)):
            torch.testing.assert_close(op(strange, x), 3 * x, check_dtype=False)


def test_a_buffer_that_requires_grad_is_refused():
    op = body_op("Into", {"x": tensor()}, {"y": tensor(buffer="out")}, into)()
    with pytest.raises(RuntimeError, match="out requires grad, but the spec names no backward op"):
        op(matrix(), out=matrix().requires_grad_())


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("k", 2**63, "expected an int of at most 64 bits, got 9223372036854775808"),
        ("k", -(10**600), "expected an int of at most 64 bits, got an integer of 1994 bits"),
        ("s", 10**600, "expected a number that a float can hold, got an integer of 1994 bits"),
        ("m", "\ud800", r"expected a str without lone surrogates, got '\ud800'"),
    ],
)
def test_scalars_that_no_operator_carries(name, value, text):
    op = body_op("Scalars", {"x": tensor()}, {"y": tensor()}, scalars)()
    with pytest.raises(SignatureError) as caught:
        op(matrix(), **{name: value})
    assert type(caught.value) is SignatureError
    assert (caught.value.declaration, caught.value.fault) == (name, text)
    assert op(matrix(), k=-(2**63), s=2**100, m="größer").shape == (N, N)


def test_large_integers_are_shown_by_their_size():
    huge, shown = 10**5000, "an integer of 16610 bits"
    with pytest.raises(TypeError, match=f"name of a target, got {shown}"):
        add_op()(2.0, target=huge)
    with pytest.raises(SignatureError, match=f"a float can hold, got {shown}"):
        add_op()(huge)
    with pytest.raises(SignatureTypeError, match=f"inputs.y: expected a tensor, got {shown}"):
        add_op()(2.0)(matrix(), huge)

    def forward(self, x, k: int = huge):
        return x

    with pytest.raises(TypeError, match=rf"forward takes \(x, k: 'int' = {shown}\), its spec"):
        body_op("Huge", {"x": tensor(), "w": tensor()}, {"y": tensor()}, forward)


def test_an_execution_argument_without_default_is_required():
    def forward(self, x, k: int):
        return x + k

    op = body_op("Needs", {"x": tensor()}, {"y": tensor()}, forward)()
    with pytest.raises(SignatureTypeError) as caught:
        op(matrix())
    assert str(caught.value).startswith(
        f"{op._name} (call): k: required argument is missing\n  expected (x, k)"
    )
    x = matrix()
    torch.testing.assert_close(op(x, 2), x + 2)


def test_long_names_and_values_are_cut():
    op = add_op()(2.0)
    with pytest.raises(SignatureTypeError) as caught:
        op(matrix(), matrix(), **{"a" * 10000: 1})
    assert len(str(caught.value)) < 500
    with pytest.raises(SignatureTypeError) as caught:
        op([matrix()] * 20, matrix())
    assert "tensor(" not in str(caught.value)
    assert "[a tensor of shape (4, 4) float32, " in str(caught.value)


MIXED = "expected real tensors alone, or fake ones of one mode, got "


@pytest.mark.parametrize("whole", [False, True])
def test_fake_tensors_beside_others(whole):
    inner = add_op()
    op, real = (composite(inner) if whole else inner)(2.0), matrix()
    mode = FakeTensorMode()
    fake, other = mode.from_tensor(real), FakeTensorMode().from_tensor(real)

    def refuse(x, y, text):
        with pytest.raises(SignatureError) as caught:
            op(x, y)
        first = str(caught.value).split("\n")[0]
        assert first == f"{op._name} (call): inputs: {MIXED}{text}"

    refuse(fake, real, "fake (x), real (y)")
    refuse(real, fake, "real (x), fake (y)")
    refuse(fake, other, "fake of mode 1 (x), fake of mode 2 (y)")
    with mode, pytest.raises(SignatureError, match=re.escape(f"{MIXED}real (x), fake (y)")):
        op(real, fake)
    assert type(op(fake, fake)) is type(fake)
    lenient = FakeTensorMode(allow_non_fake_inputs=True)
    with lenient:
        assert op(lenient.from_tensor(real), real).shape == (N, N)


@pytest.mark.parametrize("whole", [False, True])
def test_real_tensors_under_a_fake_mode(whole):
    inner = add_op()
    op, real = (composite(inner) if whole else inner)(2.0), matrix()
    refuser = inner.__name__ if whole else op._name
    text = "expected fake tensors under a fake mode, got real (x), real (y)"
    with FakeTensorMode(), pytest.raises(SignatureError) as caught:
        op(real, real)
    assert str(caught.value).split("\n")[0] == f"{refuser} (call): inputs: {text}"
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert op(real, real).shape == (N, N)
    assert op(real, real).shape == (N, N)


def test_an_assertion_of_an_implementation_is_its_own():
    def forward(self, x):
        raise AssertionError("mine")

    op = body_op("Asserting", {"x": tensor()}, {"y": tensor()}, forward)()
    with pytest.raises(AssertionError, match="mine"):
        op(matrix())


def test_a_fake_buffer_of_real_tensors():
    op = body_op("Into", {"x": tensor()}, {"y": tensor(buffer="out")}, into)()
    with pytest.raises(SignatureError) as caught:
        op(matrix(), out=FakeTensorMode().from_tensor(matrix()))
    assert caught.value.fault == f"{MIXED}real (x), fake (out)"


def test_an_inference_tensor_is_written_in_inference_mode_only():
    inputs = {"x": tensor(mutated=True), "y": tensor()}
    write = body_op("Write", inputs, {"z": tensor(alias="x")}, written)()
    fill = body_op("Into", {"x": tensor()}, {"y": tensor(buffer="out")}, into)()
    real = matrix()
    with torch.inference_mode():
        held = matrix()
        assert write(held, real) is held
        assert fill(real, out=held) is held
    text = "an inference tensor cannot be written outside inference mode; clone it first"
    for call, path in (
        (lambda: write(held, real), "inputs.x"),
        (lambda: write(held.view(-1)[:N], real[0]), "inputs.x"),
        (lambda: fill(real, out=held), "out"),
    ):
        with pytest.raises(SignatureError) as caught, torch.no_grad():
            call()
        assert type(caught.value) is SignatureError
        assert (caught.value.declaration, caught.value.fault) == (path, text)
    torch.testing.assert_close(write(held.clone(), real), held + real)
    torch.testing.assert_close(fill(held), held + 1)
