"""What the op layer does with real devices: facts, the current device, placement, tuning."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch

from tileops import Op, OpNotAvailableError, SignatureError, backend, manifest
from tileops.kernels import CallSpec, Kernel, KernelInterface

pytestmark = pytest.mark.gpu

TENSOR = {"dtype": "T", "shape": "[*S]"}
FIELDS = {"family": "toys", "status": "spec-only", "roofline": {"flops": 1}}
ROWS = [{"S": [2], "dtype_cases": [{"T": "float32"}], "label": "row"}]


def spec(inputs, outputs, workloads=ROWS, **signature):
    forall = {"S": "Shape", "T": "DType[float16 | float32]"}
    signature = {"forall": forall, "inputs": inputs, "outputs": outputs, **signature}
    return {**FIELDS, "signature": signature, "workloads": workloads}


manifest.register(
    {
        "DeviceScaleFwdOp": spec({"x": TENSOR}, {"y": TENSOR}),
        "DeviceHeldFwdOp": spec(
            {"x": TENSOR}, {"y": TENSOR}, params={"scale": {"dtype": "T", "shape": "[]"}}
        ),
        "DeviceRampFwdOp": spec(
            {}, {"y": {"dtype": "float32", "shape": "[n]"}}, [{"n": 3, "label": "three"}],
            forall={},
            params={"n": {"type": "int"},
                    "device": {"type": "torch.device | str | None", "default": None}},
        ),
    }
)  # fmt: skip


@dataclass(frozen=True)
class ScaleCall(CallSpec):
    dtype: torch.dtype


class ScaleInterface(KernelInterface):
    request = ScaleCall

    def forward(self, x): ...


class ScaleKernel(Kernel, ScaleInterface):
    """Notes which device is current while it is built and launched."""

    built, launched = [], []
    default_config = {"parts": 1}
    autotune_configs = ({"parts": 1}, {"parts": 2}, {"parts": 0})

    def __init__(self, call):
        super().__init__()
        self.built.append(torch.cuda.current_device())

    def forward(self, x):
        self.launched.append(torch.cuda.current_device())
        parts = x.chunk(self.config["parts"])
        return torch.cat([part * 2 for part in parts])


class DeviceScaleFwdOp(Op):
    kernel_types = {"plain": ScaleKernel}
    interfaces = {"scale": ScaleInterface}

    def forward(self, x):
        return self.kernel_for("scale", ScaleCall(x.dtype, device=x.device))(x)


class DeviceHeldFwdOp(Op):
    def __init__(self, scale, *, target=None):
        self.scale = scale
        super().__init__(target=target)

    def forward(self, x):
        return x * self.scale


class DeviceRampFwdOp(Op):
    def __init__(self, n, device=None, *, target=None):
        self.n, self.device = n, device
        super().__init__(target=target)

    def forward(self):
        return torch.ones(self.n, device=self.device or "cuda")


@pytest.fixture(autouse=True)
def nothing_noted():
    ScaleKernel.built, ScaleKernel.launched = [], []


needs_two = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two devices")


def test_facts_are_those_of_the_device():
    properties = torch.cuda.get_device_properties(0)
    call = ScaleCall(torch.float16, device="cuda")
    assert call.device == torch.device("cuda", torch.cuda.current_device())
    assert call.arch == 10 * properties.major + properties.minor
    assert call.sm_count == properties.multi_processor_count
    assert call.smem_budget == properties.shared_memory_per_block_optin
    assert call.calibration == {"NVIDIA H200": "h200"}.get(properties.name)
    assert ScaleCall(torch.float16, device="cpu").arch == -1


def test_construction_initialises_no_context():
    code = """
import torch
from tileops.norm import RMSNormFwdOp
from tileops.gemm import GemmFwdOp
RMSNormFwdOp([64]), GemmFwdOp()
assert not torch.cuda.is_initialized()
free = torch._C._cuda_getDeviceCount() > 0
assert free and not torch.cuda.is_initialized()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_absent_device_is_the_current_one():
    op = DeviceScaleFwdOp()
    entry = op.kernel_for("scale", ScaleCall(torch.float32))
    assert entry is op.kernel_for("scale", ScaleCall(torch.float32, device="cuda"))
    assert op.key_for("scale", ScaleCall(torch.float32)) == "plain"


def test_op_without_tensors_runs_on_the_accelerator():
    op = DeviceRampFwdOp(3)
    assert op().device.type == "cuda"
    assert op.last_call.device == torch.device("cuda", torch.cuda.current_device())
    assert op.serving_target == "builtin"


def test_tensors_on_several_devices_are_refused():
    add = pytest.importorskip("tileops.elementwise").AddFwdOp()
    with pytest.raises(SignatureError, match=r"cuda:0 \(input\)|cpu"):
        add(torch.ones(2, device="cuda"), torch.ones(2))


def test_kernel_that_does_not_run_on_the_cpu():
    with pytest.raises(OpNotAvailableError, match="no implementation runs on cpu"):
        DeviceScaleFwdOp()(torch.ones(2))


def test_held_tensor_follows_the_call_and_is_copied_once_per_device():
    op = DeviceHeldFwdOp(torch.tensor(3.0))
    devices = [torch.device("cpu"), torch.device("cuda", 0)]
    seen = {device: set() for device in devices}
    for device in devices * 3:
        assert op(torch.ones(2, device=device)).tolist() == [3, 3]
        assert op.scale.device == device
        seen[device].add(op.scale.data_ptr())
    assert all(len(pointers) == 1 for pointers in seen.values())


def test_tuning_changes_speed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    op = DeviceScaleFwdOp()
    x = torch.randn(1 << 20, device="cuda")
    before = op(x)
    op.request_tune()
    assert op.kernel_config() in ({"parts": 1}, {"parts": 2})
    assert torch.equal(op(x), before)
    (file,) = (tmp_path / "tuning").iterdir()
    assert torch.cuda.get_device_name(0) in file.read_text()


def test_launch_is_timed_on_the_device():
    from tileops._core.dispatch.tuning import time_launch

    device = torch.device("cuda", torch.cuda.current_device())
    short = time_launch(lambda: torch.cuda._sleep(1_000_000), device)
    long = time_launch(lambda: torch.cuda._sleep(10_000_000), device)
    assert 5 < long / short < 20


@needs_two
def test_kernel_launches_where_its_tensors_are():
    kernel = ScaleKernel(ScaleCall(torch.float32, device="cuda:0"))
    kernel(torch.ones(2, device="cuda:1"))
    assert ScaleKernel.launched == [1]
    assert torch.cuda.current_device() == 0


@needs_two
def test_building_and_tuning_run_on_the_call_s_device(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEOPS_CACHE_DIR", str(tmp_path))
    op = DeviceScaleFwdOp()
    op.request_tune()
    assert op(torch.ones(8, device="cuda:1")).device == torch.device("cuda:1")
    assert ScaleKernel.built == [1]
    assert set(ScaleKernel.launched) == {1}
    assert torch.cuda.current_device() == 0
    other = DeviceScaleFwdOp()
    other(torch.ones(8, device="cuda:1"))
    other.request_tune()
    assert set(ScaleKernel.launched) == {1}
    assert torch.cuda.current_device() == 0


@needs_two
def test_key_reads_the_facts_of_its_own_device(monkeypatch):
    from tileops._core.dispatch import call_spec
    from tileops._core.dispatch.facts import DeviceFacts

    asked = []

    def device_facts(device):
        asked.append(device)
        return DeviceFacts(arch=90 if device.index == 1 else 80)

    hopper = type("HopperKernel", (ScaleKernel,), {"supported_archs": {90}})
    plain = type("PlainKernel", (ScaleKernel,), {"general": True})
    monkeypatch.setattr(call_spec, "device_facts", device_facts)
    monkeypatch.setattr(DeviceScaleFwdOp, "kernel_types", {"hopper": hopper, "plain": plain})
    op = DeviceScaleFwdOp()
    assert op.key_for("scale", ScaleCall(torch.float16, device="cuda:1")) == "hopper"
    assert op.key_for("scale", ScaleCall(torch.float16)) == "plain"
    assert asked == [torch.device("cuda:1"), torch.device("cuda:0")]


@needs_two
def test_calls_on_two_devices_share_no_entry_unless_the_identity_says_so():
    op = DeviceScaleFwdOp()
    for device in ("cuda:0", "cuda:1"):
        assert op(torch.ones(2, device=device)).tolist() == [2, 2]
    assert ScaleKernel.built == [0, 1]


@needs_two
@pytest.mark.parametrize("first", [0, 1])
def test_inputs_on_two_devices_are_refused(first):
    op = pytest.importorskip("tileops.elementwise").AddFwdOp()
    here, there = (torch.ones(2, device=f"cuda:{index}") for index in (first, 1 - first))
    with pytest.raises(SignatureError) as caught:
        op(here, there)
    text = f"expected one device, got cuda:{first} (input), cuda:{1 - first} (other)"
    assert text in str(caught.value)
    assert op.serving_target is None
    assert op(there, there).tolist() == [2, 2]


@needs_two
def test_held_tensor_follows_the_call_between_two_devices():
    op = DeviceHeldFwdOp(torch.tensor(3.0))
    for device in ("cuda:0", "cuda:1", "cuda:0"):
        assert op(torch.ones(2, device=device)).tolist() == [3, 3]
        assert op.scale.device == torch.device(device)


@needs_two
def test_builder_of_a_target_runs_on_the_call_s_device():
    current = []

    def build_kernel(*specs, **parameters):
        current.append((torch.cuda.current_device(), specs[0].device))
        return lambda x: x * 2

    name = DeviceScaleFwdOp.__name__
    backend.register_kernel_builder(op=name, target="two-devices", build_kernel=build_kernel)
    op = DeviceScaleFwdOp(target="two-devices")
    for index in (1, 0, 1):
        assert op(torch.ones(2, device=f"cuda:{index}")).tolist() == [2, 2]
    assert current == [(1, torch.device("cuda", 1)), (0, torch.device("cuda", 0))]
    assert torch.cuda.current_device() == 0
