from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from toys import add_kernel, add_op, body_op, direct, pair, tensor

from tileops.errors import SignatureError, SignatureTypeError


def call_stack():
    from tileops._core.op import calls

    return calls._stack.frames


def result_op(forward, outputs, inputs=None, params=None, **signature):
    return body_op("Result", inputs or {"x": tensor()}, outputs, forward, params, signature)


@pytest.fixture
def entered(monkeypatch):
    """Notes each entry into `_run_call` of a class."""
    calls = []

    def watch(cls):
        known = cls._run_call

        def _run_call(self, *args, **kwargs):
            calls.append(type(self).__name__)
            return known(self, *args, **kwargs)

        monkeypatch.setattr(cls, "_run_call", _run_call)
        return cls

    return calls, watch


def composite(part):
    stages = {"kind": "composite", "stages": [{"name": "add", "op": part.__name__}]}

    def forward(self, x):
        return self.delegate_for("add", None)(x, x)

    cls = body_op("Both", {"x": tensor()}, {"z": tensor()}, forward, composition=stages)
    cls.delegate_types = {"add": part}
    return cls


def test_eager_call_with_a_boundary_runs_once_through_the_operator(entered):
    calls, watch = entered
    op = watch(add_op())(2.0)
    x, y = pair()
    assert torch.equal(op(x, y), 2 * x + y)
    assert calls == [type(op).__name__]


def test_fake_runs_in_no_eager_call(monkeypatch):
    cls = add_op()
    monkeypatch.setattr(cls, "_check_in_fake", lambda *args: pytest.fail("the fake ran"))
    cls()(*pair())


def test_eager_call_without_a_boundary_binds_and_runs(entered):
    calls, watch = entered
    cls = watch(composite(add_op()))
    x, _ = pair()
    assert torch.equal(cls()(x=x), 2 * x)
    assert calls[0] == cls.__name__


def test_eager_call_on_meta_tensors_ends_in_the_fake(entered):
    calls, watch = entered
    op = watch(add_op())()
    x = torch.empty(3, 2, device="meta")
    z = op(x, x)
    assert (z.device.type, tuple(z.shape), z.dtype) == ("meta", (3, 2), torch.float32)
    assert calls == []
    assert op.serving_target is None
    assert op.last_call.device == torch.device("meta")
    with pytest.raises(SignatureError):
        op(x, torch.empty(2, 2, device="meta"))
    assert call_stack() == []


def test_composite_on_meta_tensors_records_its_stages():
    cls = composite(add_op())
    op = cls()
    op(torch.empty(4, device="meta"))
    assert op.serving_target is None
    (record,) = op.last_call.stages["add"]
    assert record.device == torch.device("meta")
    assert op.held_delegates()[0].last_call is record


def test_meta_call_of_an_instance_that_a_target_serves_runs_the_body():
    from tileops import backend

    cls, built = composite(add_op()), []

    def build_kernel(x):
        built.append(x)
        return lambda x: x + x

    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build_kernel)
    op = cls(target="east")
    op(torch.ones(2))
    assert len(built) == 1
    assert op.last_call.stages["add"] == ()
    op(torch.empty(2, device="meta"))
    assert len(built) == 1
    assert len(op.last_call.stages["add"]) == 1


def test_fake_mode_leaves_nothing_behind():
    op = add_op()()
    before = {name: repr(value) for name, value in vars(op).items()}
    with FakeTensorMode() as mode:
        x = mode.from_tensor(torch.ones(3))
        assert tuple(op(x, x).shape) == (3,)
    assert {name: repr(value) for name, value in vars(op).items()} == before
    assert op._last_call is None


def test_fake_mode_leaves_nothing_on_a_composite():
    op = composite(add_op())()
    op.delegate_for("add", None)
    with FakeTensorMode() as mode:
        assert tuple(op(mode.from_tensor(torch.ones(3))).shape) == (3,)
    assert op._last_call is None
    assert op.serving_target is None


def test_seven_steps_run_in_order(monkeypatch):
    from tileops._core.op import calls as module

    cls = add_op()
    steps, plan = [], cls._signature

    def watch(owner, name, label):
        known = getattr(owner, name)

        def watched(*args, **kwargs):
            steps.append((label, args))
            return known(*args, **kwargs)

        monkeypatch.setattr(owner, name, watched)

    watch(plan, "check", "check")
    watch(module, "writes_nothing", "empty write")
    watch(cls, "_select_target", "select")
    watch(cls, "forward", "run")
    watch(plan, "check_result", "check result")
    watch(cls, "_record", "record")
    op = cls()
    x, y = pair()
    op(x, y)
    assert [label for label, _ in steps] == [
        "check", "empty write", "select", "run", "check result", "record",
    ]  # fmt: skip
    checked, judged = steps[0][1][1], steps[4][1][3]
    assert [*checked] == [*judged] == ["x", "y"]
    assert checked["x"] is judged["x"] is x
    steps.clear()
    op(x, y)
    assert [label for label, _ in steps] == ["run"]  # What it would record is kept already.


def test_result_forms():
    x = torch.ones(2)
    nothing = result_op(
        lambda self, x: (x.add_(1), None)[1],
        {},
        {"x": tensor(mutated=True)},
    )
    assert nothing()(x) is None
    assert x.tolist() == [2, 2]
    one = result_op(lambda self, x: x + 1, {"y": tensor()})
    assert isinstance(one()(x), torch.Tensor)
    params = {"both": {"type": "bool", "default": True}}
    absent = result_op(
        lambda self, x: x + 1 if self.both else None, {"y": tensor(nullable="both")}, None, params
    )
    assert absent()(x).tolist() == [3, 3]
    assert absent(False)(x) is None
    several = result_op(
        lambda self, x: [x + 1, x + 2 if self.both else None, x + 3],
        {"a": tensor(), "b": tensor(nullable="both"), "c": tensor()},
        None,
        params,
    )
    op = several()
    for _ in range(2):
        result = op(x)
        assert type(result) is tuple
        assert [t.tolist() for t in result] == [[3, 3], [4, 4], [5, 5]]
    result = several(False)(x)
    assert type(result) is tuple
    assert result[1] is None


def test_list_of_results_becomes_a_tuple_without_a_boundary():
    """In the call that selects and in the next."""
    cls = body_op(
        "Ramps",
        {},
        {"a": {"dtype": "float32", "shape": "[n]"}, "b": {"dtype": "float32", "shape": "[n]"}},
        lambda self: [torch.zeros(self.n), torch.ones(self.n)],
        {"n": {"type": "int"}, "device": {"type": "torch.device | str | None", "default": None}},
        {"forall": {}},
        workloads=[{"n": 3, "label": "three"}],
    )
    op = cls(2, device="cpu")
    for _ in range(2):
        result = op()
        assert type(result) is tuple
        assert [t.tolist() for t in result] == [[0, 0], [1, 1]]


def buffered(extra=None):
    def forward(self, x, out=None):
        if out is None:
            return x + 1
        return torch.add(x, 1, out=out)

    return result_op(forward, {"y": tensor(buffer="out", **(extra or {}))})


def test_out_is_the_object_that_was_passed():
    out = torch.full((2,), torch.nan)
    assert buffered()()(torch.ones(2), out) is out
    assert out.tolist() == [2, 2]
    assert buffered()()(torch.ones(2), out=None).tolist() == [2, 2]


def test_effect_branch_is_found_once_per_presence(monkeypatch):
    op, asked = buffered()(), []
    plan = type(op)._signature
    known = plan.effect_branch

    def effect_branch(*args):
        asked.append(args)
        return known(*args)

    monkeypatch.setattr(plan, "effect_branch", effect_branch)
    for _ in range(2):
        op(torch.ones(2))
        op(torch.ones(2), torch.empty(2))
    assert len(asked) == 2
    assert set(op._effect_branches) == {(False,), (True,)}


def in_place():
    return result_op(
        lambda self, x, y: x.add_(y) if self.in_place else x + y,
        {"z": tensor(alias="x")},
        {"x": tensor(mutated="in_place"), "y": tensor()},
        {"in_place": {"type": "bool", "default": False}},
    )


def test_alias_is_the_input_where_it_is_written():
    cls, x = in_place(), torch.ones(2)
    assert cls()(x, x) is not x
    assert cls(True)(x, torch.ones(2)) is x
    assert x.tolist() == [2, 2]
    assert len(cls.compile_op_names) == 2


def test_writes_count_as_versions_whatever_wrote():
    cls, x = in_place(), torch.ones(2)
    before = x._version
    cls(True)(x, torch.ones(2))
    assert x._version > before

    def forward(self, x):
        x.numpy()[...] += 1
        return x

    unseen = result_op(forward, {"z": tensor(alias="x")}, {"x": tensor(mutated=True)})
    before = x._version
    unseen()(x)
    assert x._version > before
    with torch.inference_mode():
        x = torch.ones(2)
        assert cls(True)(x, torch.ones(2)) is x


def test_empty_write_selects_and_runs_nothing(monkeypatch):
    cls = add_op(forward=lambda self, x, y: pytest.fail("the body ran"))
    monkeypatch.setattr(cls, "_select_target", lambda *args: pytest.fail("a target was selected"))
    op = cls(target="unknown")
    x = torch.empty(0, 3, dtype=torch.float16)
    z = op(x, x)
    assert (tuple(z.shape), z.dtype, z.device.type) == ((0, 3), torch.float16, "cpu")
    assert op.serving_target is None
    assert op.last_call.shape("z") == (0, 3)


def test_empty_write_returns_the_caller_s_tensors():
    out = torch.empty(0)
    assert buffered()()(torch.empty(0), out) is out
    x = torch.empty(0)
    assert in_place()(True)(x, torch.empty(0)) is x


def test_empty_write_leaves_absent_outputs_absent():
    cls = result_op(
        lambda self, x: pytest.fail("ran"),
        {"a": tensor(), "b": tensor(nullable="both")},
        None,
        {"both": {"type": "bool", "default": False}},
    )
    a, b = cls()(torch.empty(0))
    assert a.numel() == 0
    assert b is None


def test_empty_input_with_a_result_runs():
    cls = body_op(
        "Sum",
        {"x": tensor()},
        {"y": tensor(shape="[]")},
        lambda self, x: x.sum(),
    )
    assert cls()(torch.empty(0, 4)).item() == 0


def test_op_without_inputs_runs_on_the_device_of_its_parameter():
    cls = body_op(
        "Ramp",
        {},
        {"y": {"dtype": "float32", "shape": "[n]"}},
        lambda self: torch.arange(float(self.n), device=self.device),
        {
            "n": {"type": "int"},
            "device": {"type": "torch.device | str | None", "default": None},
        },
        {"forall": {}},
        workloads=[{"n": 3, "label": "three"}],
    )
    assert cls(3, device="cpu")().tolist() == [0, 1, 2]
    op = cls(0, device="cpu")
    assert tuple(op().shape) == (0,)
    assert op.serving_target is None
    assert op.last_call.device == torch.device("cpu")


def test_inputs_reach_the_body_as_passed():
    seen = []
    cls = result_op(lambda self, x: (seen.append(x), x.contiguous() + 1)[1], {"y": tensor()})
    x = torch.ones(4, 3).t()
    cls()(x)
    assert seen[0] is x


@pytest.fixture(scope="module")
def arguments():
    def forward(self, x, w=None, out=None, k: int = 1, s: float = 1.0, f: bool = True, m: str = ""):
        forward.seen = (k, s, f, m)
        result = x + k
        return result if out is None else out.copy_(result)

    cls = body_op(
        "Args", {"x": tensor(), "w": tensor(optional=True)}, {"y": tensor(buffer="out")}, forward
    )
    cls.seen = staticmethod(lambda: forward.seen)
    return cls()


ONE = torch.ones(1)
SIGNATURE = "\n  expected (x, w=None, out=None, k=1, s=1.0, f=True, m='')"


@pytest.mark.parametrize(
    ("args", "kwargs", "declaration", "text"),
    [
        ((), {}, "inputs.x", f"required, got None{SIGNATURE}"),
        ((None,), {}, "inputs.x", f"required, got None{SIGNATURE}"),
        ((), {"x": None}, "inputs.x", f"required, got None{SIGNATURE}"),
        ((ONE,) * 8, {}, "", f"takes 7 positional arguments, got 8{SIGNATURE}"),
        ((ONE,), {"z": ONE}, "", f"unknown argument 'z'{SIGNATURE}"),
        ((ONE,), {"x": ONE}, "", f"argument 'x' is given twice{SIGNATURE}"),
        ((1.5,), {}, "inputs.x", "expected a tensor, got 1.5 (float)"),
        (([1.0],), {}, "inputs.x", "expected a tensor, got [1.0] (list)"),
        ((ONE, "w"), {}, "inputs.w", "expected a tensor, got 'w' (str)"),
        ((ONE,), {"out": 3}, "out", "expected a tensor, got 3 (int)"),
        ((ONE,), {"k": 1.0}, "k", "expected int, got 1.0 (float)"),
        ((ONE,), {"k": True}, "k", "expected int, got True (bool)"),
        ((ONE,), {"s": "x"}, "s", "expected float, got 'x' (str)"),
        ((ONE,), {"f": 1}, "f", "expected bool, got 1 (int)"),
        ((ONE,), {"m": 0}, "m", "expected str, got 0 (int)"),
    ],
)
def test_arguments_that_do_not_bind(arguments, args, kwargs, declaration, text):
    with pytest.raises(SignatureTypeError) as caught:
        arguments(*args, **kwargs)
    error = caught.value
    assert (error.op, error.phase, error.declaration) == (
        type(arguments).__name__, "call", declaration,
    )  # fmt: skip
    assert error.fault == text


def test_a_missing_input_in_three_lines(arguments):
    with pytest.raises(SignatureTypeError) as caught:
        arguments()
    assert str(caught.value).split("\n") == [
        f"{type(arguments).__name__} (call): inputs.x: required, got None",
        "  expected (x, w=None, out=None, k=1, s=1.0, f=True, m='')",
        "  declared in mapping of toys",
    ]


def test_arguments_that_bind(arguments):
    arguments(ONE, k=2, s=3, f=False, m="fast")
    assert arguments.seen() == (2, 3, False, "fast")
    arguments(ONE, None, None, 4, 1.5)
    assert arguments.seen() == (4, 1.5, True, "")


def test_out_where_no_output_takes_one():
    op = add_op()()
    with pytest.raises(SignatureTypeError) as caught:
        op(ONE, ONE, out=ONE)
    assert caught.value.declaration == "out"
    assert caught.value.fault == "no output takes a buffer\n  expected (x, y)"


@pytest.mark.parametrize("bounded", [True, False])
def test_type_error_of_a_body_passes_unchanged(bounded):
    def forward(self, x):
        raise TypeError("missing 1 required positional argument: 'x'")

    stages = {} if bounded else {
        "composition": {"kind": "composite", "stages": [{"name": "a", "op": add_op().__name__}]}
    }  # fmt: skip
    op = body_op("Raises", {"x": tensor()}, {"y": tensor()}, forward, **stages)()
    with pytest.raises(TypeError) as caught:
        op(ONE)
    assert type(caught.value) is TypeError


def test_arguments_of_a_class_without_a_boundary():
    op = composite(add_op())()
    with pytest.raises(SignatureTypeError, match=r"inputs.x: required, got None"):
        op()
    with pytest.raises(SignatureTypeError, match="unknown argument 'y'"):
        op(ONE, y=ONE)
    with pytest.raises(SignatureTypeError, match="expected a tensor, got 3"):
        op(3)


def test_gradients_are_refused_unless_asked_to_be_left_out():
    op = add_op()()
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        op(torch.ones(2), x)
    assert str(caught.value) == (
        f"{type(op).__name__}: y requires grad, but the spec names no backward op; "
        "call it under torch.no_grad() for detached results"
    )
    with torch.no_grad():
        assert not op(x, x).requires_grad
    with torch.inference_mode():
        op(x, x)


RESULTS = [
    (lambda self, x: (x + 1,), "outputs", "expected 2 results, got 1"),
    (lambda self, x: x + 1, "outputs", "expected 2 results, got Tensor"),
    (lambda self, x: (x + 1, None), "outputs.b", "expected a tensor, got None"),
    (lambda self, x: (3, x + 1), "outputs.a", "expected a tensor, got int"),
    (lambda self, x: (x[1:] + 1, x + 1), "outputs.a.shape", "the implementation returned"),
    (lambda self, x: (x.double(), x + 1), "outputs.a.dtype", "the implementation returned float64"),
    (lambda self, x: (x.to("meta"), x + 1), "outputs.a", "meta"),
    (lambda self, x: (x, x + 1), "outputs.a", "shares it with x"),
    (lambda self, x: (x[:], x + 1), "outputs.a", "shares it with x"),
    (lambda self, x: ((x + 1),) * 2, "outputs.b", "shares it with a"),
    (lambda self, x: (torch.ones(8)[::2], x + 1), "outputs.a.contiguous", "strides (2,)"),
]


@pytest.mark.parametrize(("forward", "declaration", "text"), RESULTS)
def test_result_that_the_signature_rejects(forward, declaration, text):
    op = result_op(forward, {"a": tensor(), "b": tensor()})()
    with pytest.raises(SignatureError) as caught:
        op(torch.ones(4))
    error = caught.value
    assert (error.op, error.phase) == (type(op).__name__, "call")
    assert error.declaration.startswith(declaration)
    assert text in str(error)
    assert op._last_call is None


def test_result_where_nothing_is_declared():
    op = result_op(lambda self, x: x, {}, {"x": tensor(mutated=True)})()
    with pytest.raises(SignatureError, match="nothing is declared, got Tensor"):
        op(ONE.clone())


def test_result_for_an_absent_output():
    params = {"both": {"type": "bool", "default": False}}
    op = result_op(lambda self, x: x + 1, {"y": tensor(nullable="both")}, None, params)()
    with pytest.raises(SignatureError, match="the output is absent"):
        op(ONE)


@pytest.mark.parametrize(
    ("cls", "args", "text"),
    [
        (lambda: result_op(lambda self, x, out=None: x + 1, {"y": tensor(buffer="out")}),
         (ONE, torch.ones(1)), "expected the passed tensor out itself"),
        (lambda: result_op(lambda self, x: x + 1, {"y": tensor(alias="x")},
                           {"x": tensor(mutated=True)}),
         (ONE.clone(),), "expected the passed tensor x itself"),
    ],
)  # fmt: skip
def test_result_that_is_not_the_caller_s_tensor(cls, args, text):
    with pytest.raises(SignatureError, match=text):
        cls()()(*args)


@pytest.mark.parametrize(
    ("x", "w", "text"),
    [
        (torch.ones(2), torch.ones(3), "inputs.w.shape"),
        (torch.ones(2), torch.ones(2, dtype=torch.float16), "inputs.w.dtype"),
        (torch.ones(2, dtype=torch.float64), None, "inputs.x.dtype"),
        (torch.ones(2), torch.ones(2, device="meta"), "cpu (x), meta (w)"),
        (torch.ones(5), None, 'shape_rules[0] "len(S) == 1 and S[0] < 5"'),
    ],
)
def test_call_that_the_signature_rejects(x, w, text):
    stages = {"composition": {"kind": "composite",
                              "stages": [{"name": "a", "op": add_op().__name__}]}}  # fmt: skip
    op = body_op(
        "Checked",
        {"x": tensor(), "w": tensor(optional=True)},
        {"y": tensor()},
        lambda self, x, w=None: x + 1,
        None,
        {"shape_rules": ["len(S) == 1 and S[0] < 5"]},
        **stages,
    )()
    with pytest.raises(SignatureError) as caught:
        op(x, w)
    assert caught.value.phase == "call"
    assert text in str(caught.value)
    assert op.serving_target is None


@pytest.mark.parametrize(
    ("x", "out", "text"),
    [
        (torch.ones(2), torch.ones(3), "(2,) float32, got (3,) float32"),
        (torch.ones(2), torch.ones(2).half(), "(2,) float32, got (2,) float16"),
        (torch.ones(2), torch.ones(2, device="meta"), "meta"),
        (torch.ones(2), torch.ones(1).expand(2), "overlaps itself"),
    ],
)
@pytest.mark.parametrize("bounded", [True, False])
def test_buffer_that_cannot_take_the_output(x, out, text, bounded):
    cls = buffered() if bounded else direct(buffered())
    with pytest.raises(SignatureError) as caught:
        cls()(x, out)
    assert text in str(caught.value)
    with pytest.raises(SignatureError, match="shares storage with x"):
        cls()(x, x)


def test_calls_of_kernels_are_seen_by_their_counters():
    kernel = add_kernel()
    op = add_op({"plain": kernel})(2.0)
    for _ in range(3):
        op(*pair())
    assert (kernel.built, kernel.launched) == (1, 3)
