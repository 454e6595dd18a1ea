from __future__ import annotations

import gc

import pytest
import torch
from toys import (
    AddKernel,
    Block,
    add_kernel,
    add_op,
    body_op,
    compiled,
    composite,
    define,
    in_place,
    pair,
    spec,
    tensor,
)

from tileops import Op, SignatureError, TileOpsError, backend


@pytest.fixture(autouse=True)
def cold():
    """Nothing compiled before is found."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Graphs:
    """Runs graphs as they are; `nodes` holds the names of what each of them calls."""

    def __init__(self):
        self.nodes = []

    def __call__(self, graph, example_inputs):
        called = [node for node in graph.graph.nodes if node.op == "call_function"]
        self.nodes.append([str(node.target).removesuffix(".default") for node in called])
        return graph


def operators(op):
    return [name.replace("::", ".") for name in op.compile_op_names]


def buffered():
    def forward(self, x, w=None, out=None, k: int = 1):
        result = x + k if w is None else x + w + k
        return result if out is None else out.copy_(result)

    return body_op(
        "Buf", {"x": tensor(), "w": tensor(optional=True)}, {"y": tensor(buffer="out")}, forward
    )


def schema(name):
    namespace, operator = name.split("::")
    return str(getattr(getattr(torch.ops, namespace), operator).default._schema)


def test_schemas_say_what_a_branch_writes_and_returns():
    cls = buffered()
    plain, out = map(schema, cls.compile_op_names)
    assert "(Tensor x, Tensor? w, SymInt k, str instance_key) -> Tensor" in plain
    assert "(Tensor x, Tensor? w, Tensor(a!) out, SymInt k, str instance_key) -> ()" in out
    pure, writing = map(schema, in_place().compile_op_names)
    assert "(Tensor x, str instance_key) -> Tensor" in pure
    assert "(Tensor(a!) x, str instance_key) -> ()" in writing

    def forward(self, a, b=None, s: float = 1.0, f: bool = True, m: str = "x"):
        return None

    several = body_op(
        "Several",
        {"a": tensor(mutated=True), "b": tensor(mutated=True, optional=True)},
        {"a_out": tensor(alias="a"), "u": tensor(), "v": tensor(nullable="present(b)")},
        forward,
    )
    one, two = sorted(map(schema, several.compile_op_names), key=len)
    arguments = "bool f, str m, float s, str instance_key"
    assert f"(Tensor(a!) a, Tensor? b, {arguments}) -> Tensor" in one
    assert f"(Tensor(a!) a, Tensor(b!)? b, {arguments}) -> (Tensor, Tensor)" in two
    names = {name.rpartition("_fwd")[2] for name in several.compile_op_names}
    assert names == {"_writes_a_without_v", "_writes_a_writes_b"}


def test_operators_need_exact_strides():
    (name,) = add_op().compile_op_names
    overload = getattr(torch.ops.tileops, name.split("::")[1]).default
    assert torch.Tag.needs_exact_strides in overload.tags


def test_cold_compilation_equals_eager():
    op = add_op()(2.0)
    x, y = pair()
    assert torch.equal(compiled(op)(x, y), 2 * x + y)
    assert op.serving_target == "builtin"
    assert op.last_call.shape("z") == (6,)


def test_graph_holds_the_operator_alone_whatever_serves():
    cls = add_op()
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda *s, **p: lambda x, y: x - y
    )
    x, y = pair()
    for op, wanted in ((cls(), x + y), (cls(target="east"), x - y)):
        graphs = Graphs()
        assert torch.equal(compiled(op, graphs)(x, y), wanted)
        assert graphs.nodes == [operators(op)]
    assert op.serving_target == "east"


def test_strides_of_results_are_those_of_eager():
    op = add_op()()
    x, y = (torch.randn(3, 4).t() for _ in range(2))
    eager, traced = op(x, y), compiled(op)(x, y)
    assert eager.stride() == traced.stride() == (3, 1)
    wide = torch.randn(4, 6)[:, ::2]
    assert torch.equal(compiled(op)(wide, wide.clone()), wide + wide)


def test_out_and_aliases_stay_the_caller_s_objects():
    op, out = buffered()(), torch.full((3,), torch.nan)
    assert compiled(op)(torch.ones(3), None, out, k=4) is out
    assert out.tolist() == [5, 5, 5]
    op, x = in_place()(True), torch.ones(3)
    assert compiled(op)(x) is x
    assert x.tolist() == [2, 2, 2]
    assert compiled(in_place()(False))(x) is not x


def test_written_views_are_written_through():
    op, base = in_place()(True), torch.zeros(4)

    def function(base):
        op(base[:2])
        return base * 2

    assert torch.compile(function, fullgraph=True, backend="aot_eager")(base).tolist() == [
        2,
        2,
        0,
        0,
    ]
    assert base.tolist() == [1, 1, 0, 0]


def test_first_call_tuning_and_records_compile_nothing_again(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    op, graphs = add_op({"plain": add_kernel(autotune_configs=({"t": 1}, {"t": 2}))})(), Graphs()
    function = compiled(op, graphs)
    x, y = pair()
    for _ in range(2):
        function(x, y)
    op._last_call = None
    op.request_tune()
    function(x, y)
    assert op.last_call.shape("z") == x.shape
    assert len(graphs.nodes) == 1
    assert op.kernel_config() is not None


def test_presence_pattern_compiles_once_more():
    op, graphs = buffered()(), Graphs()
    function = compiled(op, graphs)
    x = torch.ones(2)
    function(x)
    function(x)
    function(x, x)
    assert len(graphs.nodes) == 2
    function(x, None, torch.empty(2))
    assert len(graphs.nodes) == 3
    assert op._effect_branches == {}
    op(x)
    op(x, None, torch.empty(2))
    assert len(op._effect_branches) == 2
    function(x)
    function(x, None, torch.empty(2))
    assert len(graphs.nodes) == 3


def test_one_graph_serves_several_sizes():
    op, graphs = add_op()(2.0), Graphs()
    function = compiled(op, graphs, dynamic=True)
    for n in (3, 5, 9, 17):
        x, y = pair(n)
        assert torch.equal(function(x, y), 2 * x + y)
    assert len(graphs.nodes) == 1
    kernel = type(op).kernel_types["plain"]
    assert kernel.launched == 4
    assert tuple(function(*pair(0)).shape) == (0,)
    assert kernel.launched == 4


def test_refinement_is_checked_in_the_graph():
    op = body_op(
        "Even",
        {"x": tensor(shape="[N]")},
        {"y": tensor(shape="[N]")},
        lambda self, x: x + 1,
        None,
        {"forall": {"N": "Dim", "T": "DType[float32]"}, "shape_rules": ["N % 2 == 0"]},
        workloads=[{"N": 2, "dtype_cases": [{"T": "float32"}], "label": "row"}],
    )()
    function = compiled(op, dynamic=True)
    for n in (2, 4, 6):
        function(torch.ones(n))
    with pytest.raises(Exception, match="does not hold|N % 2"):
        function(torch.ones(5))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda op: op(torch.ones(2), torch.ones(3)), "inputs.y.shape"),
        (lambda op: op(torch.ones(2)), "y"),
        (lambda op: op(torch.ones(2), torch.ones(2), beta=1), "beta"),
        (lambda op: op(torch.ones(2), None), "inputs.y"),
    ],
)
def test_fault_found_while_tracing_is_the_compiler_s_error_with_our_text(call, text):
    op = add_op()()
    with pytest.raises(Exception) as caught:
        torch.compile(lambda: call(op), fullgraph=True, backend="aot_eager")()
    assert text in str(caught.value)


def test_failing_node_undoes_its_selection_and_raises_what_eager_raises():
    trouble = [OSError("no memory")]

    def forward(self, x, y):
        if trouble:
            raise trouble.pop()
        return x + y

    op = add_op({"plain": add_kernel(forward=forward)})()
    function = compiled(op)
    with pytest.raises(OSError, match="no memory"):
        function(*pair())
    assert op.serving_target is None
    x, y = pair()
    assert torch.equal(function(x, y), x + y)


def test_gradients_are_refused_in_traced_code_too():
    op = add_op()()
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(Exception, match="requires grad"):
        compiled(op)(x, x)
    with torch.no_grad():
        assert compiled(op)(x, x).tolist() == [2, 2]


def test_what_runs_below_a_frame_that_was_given_up_is_not_traced():
    """A frame in which an error was raised is compiled no more; those below it are."""
    op, x, frames = add_op()(), torch.ones(2, requires_grad=True), torch._dynamo.utils.counters
    compiled = torch.compile(op, backend="eager")
    with pytest.raises(RuntimeError, match="requires grad, but"):
        compiled(x, x)
    frames.clear()
    with torch.no_grad():
        assert compiled(x, x).tolist() == [2, 2]
    assert frames["frames"]["total"] == 0


def test_detached_results_inside_code_that_computes_gradients():
    op = add_op()(2.0)

    def function(x):
        with torch.no_grad():
            scale = op(x, x)
        return (x * scale).sum()

    x = torch.ones(2, requires_grad=True)
    for call in (function, compiled(function)):
        x.grad = None
        call(x).backward()
        assert x.grad.tolist() == [3, 3]
        assert compiled(op)(x.detach(), x.detach()).tolist() == [3, 3]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_tangents_are_refused_with_and_without_grad_mode():
    op, x = add_op()(), torch.ones(2)
    for mode in (torch.enable_grad, torch.no_grad):
        with mode(), pytest.raises(RuntimeError) as caught:
            torch.func.jvp(lambda x: op(x, torch.ones(2)), (x,), (x,))
        assert str(caught.value) == (
            f"{type(op).__name__}: x carries a tangent, but ops have no forward-mode derivatives; "
            "detach what is to count as a constant"
        )
    with torch.autograd.forward_ad.dual_level():
        assert op(x, x).tolist() == [2, 2]


def test_vmap_is_refused():
    op, x = add_op()(), torch.ones(3, 2)
    message = (
        f"{type(op).__name__}: torch.func.vmap cannot look into an op; call it on the whole batch "
        "where its shapes allow that, or in a loop"
    )
    for call in (lambda x: op(x, x), in_place()(True)):
        with pytest.raises(RuntimeError, match="vmap cannot look into an op") as caught:
            torch.func.vmap(call)(x)
    with pytest.raises(RuntimeError) as caught:
        torch.func.vmap(op)(x, x)
    assert str(caught.value) == message


def test_functionalize_takes_calls_that_write_nothing():
    op, write, x = add_op()(), in_place()(True), torch.ones(3)
    found = torch.func.functionalize(lambda x: op(x, x).add_(1))(x)
    assert found.tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="whose output has alias annotations"):
        torch.func.functionalize(write)(x)
    assert x.tolist() == [1, 1, 1]


def test_compiled_function_whose_op_is_gone_says_so():
    op = add_op()()
    key = op._instance_key
    overload = getattr(torch.ops.tileops, operators(op)[0].split(".")[1]).default
    x, y = pair()
    assert torch.equal(overload(x, y, key), x + y)
    del op
    gc.collect()
    with pytest.raises(TileOpsError, match="no live instance has the key"):
        overload(x, y, key)


def test_composite_traces_into_the_operators_of_its_sub_ops():
    part = add_op()
    op, graphs = composite(part)(), Graphs()
    op.delegate_for("part", None)
    x = torch.ones(3)
    assert compiled(op, graphs)(x).tolist() == [3, 3, 3]
    assert graphs.nodes == [operators(part) * 2]
    assert op._last_call is None
    assert op.held_delegates()[0].last_call.shape("x") == (3,)


def test_composite_compiles_after_an_eager_call_held_its_sub_ops():
    op, x = composite(add_op())(), torch.ones(3)
    op(x)
    record = op.last_call
    assert compiled(op)(x).tolist() == [3, 3, 3]
    assert op.last_call is record


def test_composite_that_holds_nothing_says_what_to_do():
    op, x = composite(add_op())(), torch.ones(3)
    with pytest.raises(Exception, match="call the op once before it is compiled") as caught:
        compiled(op)(x)
    assert f"{type(op).__name__}: stage 'part' holds no sub-op for this call" in str(caught.value)
    assert op.held_delegates() == ()
    op(x)
    assert compiled(op)(x).tolist() == [3, 3, 3]


def test_composite_that_holds_nothing_runs_where_graphs_may_break():
    op = composite(add_op())()
    assert torch.compile(op, backend="aot_eager")(torch.ones(3)).tolist() == [3, 3, 3]
    assert len(op.held_delegates()) == 1


def test_composite_that_a_target_serves_traces_its_kernel():
    cls = composite(add_op())
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda x: lambda x: x * 7
    )
    op, x = cls(target="east"), torch.ones(3)
    op(x)
    assert compiled(op)(x).tolist() == [7, 7, 7]


def test_target_that_has_built_no_kernel_for_traced_shapes_says_so():
    cls = composite(add_op())
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda x: lambda x: x * 7
    )
    op = cls(target="east")
    op(torch.ones(3))
    with pytest.raises(Exception, match="call the op once with such inputs") as caught:
        compiled(op)(torch.ones(4))
    text = f"{cls.__name__}: target 'east' has built no kernel for these shapes"
    assert text in str(caught.value)
    op(torch.ones(4))
    torch._dynamo.reset()
    assert compiled(op)(torch.ones(4)).tolist() == [7] * 4


@pytest.mark.parametrize("call", [lambda op: op, compiled])
def test_mixed_precision_leaves_a_target_s_kernel_of_a_composite_alone(call):
    cls = composite(add_op())
    backend.register_kernel_builder(
        op=cls.__name__, target="east", build_kernel=lambda x: lambda x: torch.outer(x, x) @ x
    )
    op, x = cls(target="east"), torch.ones(3)
    op(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert call(op)(x).dtype is torch.float32


def test_refusal_of_a_dtype_names_mixed_precision_where_that_is_on():
    op, (x, y) = add_op()(), pair(3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.raises(SignatureError) as caught:
            op(x, y.bfloat16())
        assert "".join(caught.value.__notes__).startswith("torch.autocast is enabled: it converts")
        with pytest.raises(SignatureError) as caught:
            op(x, y[:2])
        assert not hasattr(caught.value, "__notes__")
    with pytest.raises(SignatureError) as caught:
        op(x, y.bfloat16())
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("device", ["meta", "vulkan"])
def test_devices_without_mixed_precision_run_kernels_as_they_are(device):
    with composite(add_op())()._as_declared(torch.device(device)):
        assert not torch.is_autocast_enabled("cpu")


def test_traced_kernel_of_a_target_gets_what_an_eager_one_gets():
    part = add_op()
    stages = {"kind": "composite", "stages": [{"name": "add", "op": part.__name__}]}
    cls = body_op(
        "Fill", {"x": tensor(), "y": tensor(mutated=True)},
        {"z": tensor(buffer="out"), "same": tensor(alias="y"), "new": tensor()},
        lambda self, x, y, out=None: None, composition=stages,
    )  # fmt: skip
    cls.delegate_types = {"add": part}
    seen = []

    def build(*specs):
        def kernel(x, y, out=None):
            seen.append((x.is_contiguous(), y.is_contiguous()))
            if out is None:
                return x * 2, None, (y.add_(1) * 3).contiguous()
            out.copy_(x * 2)
            return None, None, (y.add_(1) * 3).contiguous()

        return kernel

    backend.register_kernel_builder(op=cls.__name__, target="east", build_kernel=build)
    op = cls(target="east")
    x = torch.arange(6.0).reshape(2, 3).t()
    for buffered in (False, True):
        results = []
        for call in (op, compiled(op)):
            y, out = torch.zeros(2, 3).t(), torch.empty(3, 2)
            z, same, new = call(x, y, out=out) if buffered else call(x, y)
            assert same is y
            assert (z is out) is buffered
            results.append((z, same, new))
        torch.testing.assert_close(*results)
    assert set(seen) == {(True, False)}


def test_export_holds_the_operator():
    op = add_op()(2.0)
    x, y = pair()
    for strict in (False, True):
        program = torch.export.export(Block(op), (x, y), strict=strict)
        called = {str(node.target).removesuffix(".default") for node in program.graph.nodes}
        assert called >= set(operators(op))
        assert torch.equal(program.module()(x, y), (2 * x + y) * 2)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor_keeps_exact_strides():
    op = add_op()(2.0)

    def function(x):
        return op(x.t(), x.t())

    x = torch.randn(3, 4)
    given = torch.compile(function, fullgraph=True)(x)
    torch.testing.assert_close(given, function(x))
    assert given.stride() == (3, 1)


CASES = [
    (lambda: add_op()(2.0), pair),
    (buffered(), lambda: (torch.randn(4), None, 2)),
    (buffered(), lambda: (torch.randn(4), torch.randn(4), 2)),
    (buffered(), lambda: (torch.randn(4), None, torch.empty(4), 2)),
    (lambda: in_place()(True), lambda: (torch.randn(4),)),
    (lambda: in_place()(False), lambda: (torch.randn(4),)),
]


@pytest.mark.parametrize(("make", "arguments"), CASES)
def test_opcheck(make, arguments):
    op, given = make(), arguments()
    tensors = sum(isinstance(value, torch.Tensor) for value in given)
    writes = isinstance(getattr(op, "in_place", None), bool) and op.in_place
    wanted = "_out" if tensors == 2 and given[1] is None else "_writes_x" if writes else "_fwd"
    name = next(name for name in op.compile_op_names if name.endswith(wanted))
    overload = getattr(torch.ops.tileops, name.split("::")[1]).default
    torch.library.opcheck(overload, (*given, op._instance_key))


def test_kernel_is_reached_through_the_graph():
    kernel = add_kernel(AddKernel)
    op = add_op({"plain": kernel})()
    function = compiled(op)
    function(*pair())
    function(*pair())
    assert (kernel.built, kernel.launched) == (1, 2)


def test_composite_that_holds_a_tensor():
    part = add_op()

    def forward(self, x):
        return self.delegate_for("part", None)(x, self.shift)

    def init(self, shift, *, target=None):
        self.shift = shift
        Op.__init__(self, target=target)
        self.delegate_for("part", None)

    declared = spec(
        {"x": tensor()}, {"z": tensor()}, {"shift": tensor()},
        composition={"kind": "composite", "stages": [{"name": "part", "op": part.__name__}]},
    )  # fmt: skip
    cls = define("Shifted", declared, __init__=init, forward=forward, delegate_types={"part": part})
    op, x = cls(torch.full((2,), 3.0)), torch.ones(2)
    assert compiled(op)(x).tolist() == [4, 4]
    assert op(x).tolist() == [4, 4]
    assert compiled(op)(x).tolist() == [4, 4]
