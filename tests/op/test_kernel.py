from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch

from tileops._core.dispatch import kernel as kernels
from tileops.kernels import CallSpec, Kernel


@dataclass(frozen=True)
class Call(CallSpec):
    n: int = 0


class Scale(Kernel):
    """Multiplies by its configuration's factor, which stands for a compiled program."""

    needs_tilelang = False
    default_config = {"factor": 1}

    def __init__(self):
        super().__init__()
        self.made = []

    def make_program(self, config):
        self.made.append(dict(config))
        return lambda x: x * config["factor"]

    def forward(self, x):
        return self.program()(x)


def test_declared_defaults():
    assert Kernel.devices == frozenset({"cuda"})
    assert Kernel.supported_archs is None
    assert Kernel.general is False
    assert Kernel.preferred_over == frozenset()
    assert Kernel.refusal(Call()) is None
    kernel = Scale()
    assert kernel.autotune_configs is None
    assert Kernel.default_config.fget(kernel) == {}


def test_default_entry_is_built_from_the_call_spec_and_identified_by_it():
    class Keeps(Kernel):
        def __init__(self, call):
            super().__init__()
            self.call = call

        def forward(self): ...

    call = Call(3)
    identity, factory = Keeps.entry_for(call)
    assert identity is call
    assert factory().call is call


def test_forward_is_abstract():
    with pytest.raises(TypeError, match="forward"):
        Kernel()


def test_construction_refuses_an_architecture_that_is_not_supported():
    class Hopper(Scale):
        supported_archs = {90, 100}

    with pytest.raises(ValueError, match=r"Hopper supports the architectures \[90, 100\], .* -1"):
        Hopper()


def test_program_is_made_at_the_first_launch_once_per_configuration():
    kernel = Scale()
    assert kernel.made == []
    assert kernel(torch.ones(2)).tolist() == [1, 1]
    kernel(torch.ones(2))
    assert kernel.made == [{"factor": 1}]
    kernel.config = {"factor": 3}
    assert kernel(torch.ones(2)).tolist() == [3, 3]
    kernel.config = {"factor": 1}
    kernel(torch.ones(2))
    assert kernel.made == [{"factor": 1}, {"factor": 3}]


def test_configuration_is_replaced_not_edited():
    kernel = Scale()
    with pytest.raises(TypeError):
        kernel.config["factor"] = 2
    assert kernel.config == {"factor": 1}


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}])
def test_configuration_that_is_no_key(value):
    kernel = Scale()
    with pytest.raises(TypeError) as caught:
        kernel.config = {"factor": value}
    assert str(caught.value) == (
        f"Scale: the configuration's factor is {value!r}, which cannot be hashed and so cannot "
        "tell programs apart"
    )
    assert kernel.config == {"factor": 1}


def test_default_configuration_that_is_no_key():
    class Listed(Scale):
        default_config = {"factor": [1]}

    with pytest.raises(TypeError, match=r"Listed: the configuration's factor is \[1\], which"):
        Listed()(torch.ones(1))


def test_program_is_made_once_from_several_threads():
    entered = threading.Barrier(8)

    class Slow(Scale):
        def make_program(self, config):
            threading.Event().wait(0.02)
            return super().make_program(config)

    kernel = Slow()

    def launch():
        entered.wait()
        kernel(torch.ones(1))

    threads = [threading.Thread(target=launch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(kernel.made) == 1


def test_kernel_without_a_program_says_so():
    class Plain(Kernel):
        def forward(self): ...

    with pytest.raises(NotImplementedError, match="Plain defines no program"):
        Plain().program()


class Remote:
    """Stands for a tensor on an accelerator that this machine lacks."""

    is_cpu = is_meta = False

    def __init__(self, index):
        self.device = torch.device("cuda", index)


@pytest.fixture
def two_devices(monkeypatch):
    """An accelerator with two devices of which the first is current; the list says what was set."""
    entered = []

    @contextmanager
    def as_current(device):
        entered.append(device)
        yield

    monkeypatch.setattr(torch, "Tensor", Remote)
    monkeypatch.setattr(kernels, "accelerator_type", lambda: "cuda")
    monkeypatch.setattr(kernels, "as_current", as_current)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    return entered


def test_launch_enters_the_device_of_the_first_tensor_when_it_is_not_current(two_devices):
    class Plain(Kernel):
        def forward(self, *args, **kwargs): ...

    kernel = Plain()
    kernel(3, Remote(1), Remote(0))
    assert two_devices == [torch.device("cuda", 1)]
    kernel(Remote(0), Remote(1))
    kernel()
    assert len(two_devices) == 1
    kernel(n=1, x=Remote(1))
    assert len(two_devices) == 2
