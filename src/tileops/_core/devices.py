"""Devices as torch sees them: the process accelerator, the normal form, the current device.

Not for what a device can do (see `dispatch`) and not for choosing one. Devices are compared in
normal form only: as a tensor allocated there reports its device. What is kept from call to call is
built under `building_on` or made by `made_to_last`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TypeVar

import torch
from torch import Tensor

from tileops.errors import OpNotAvailableError

Self = TypeVar("Self", bound="_Building")

_FAKE = torch._C._TorchDispatchModeKey.FAKE
_known_accelerator: str | None = None
KNOWN_FORMS: dict[object, torch.device] = {}
"""Normal forms that never change: those of devices that do not lean on the current device."""


def accelerator_type() -> str | None:
    """The device type of the accelerator that is available in this process, or None.

    A positive answer is final and kept; a negative one is asked again, because a backend that is
    imported later may bring the accelerator.
    """
    global _known_accelerator
    if _known_accelerator is None:
        found: torch.device | None = torch.accelerator.current_accelerator(check_available=True)
        if found is not None:
            _known_accelerator = found.type
    return _known_accelerator


def current_device() -> torch.device | None:
    """The accelerator's current device, or None without an accelerator."""
    kind = accelerator_type()
    if kind is None:
        return None
    return torch.device(kind, torch.accelerator.current_device_index())


def normal_form(device: torch.device | str) -> torch.device:
    """The device as a tensor allocated there would report it.

    An accelerator device without an index gets the current one; `cpu` and `meta` have none; a
    device type that this process lacks keeps what it states.
    """
    known = KNOWN_FORMS.get(device)
    if known is not None:
        return known
    wanted = torch.device(device)
    index: int | None = wanted.index
    if wanted.type in {"cpu", "meta"}:
        normal = torch.device(wanted.type)
    elif index is None:
        if wanted.type != accelerator_type():
            return wanted
        return torch.device(wanted.type, torch.accelerator.current_device_index())
    else:
        normal = wanted
    return KNOWN_FORMS.setdefault(device, normal)


def as_current(device: torch.device | None) -> AbstractContextManager[object]:
    """A context in which `device` is current; nothing is switched for other device types."""
    if device is None or device.type != accelerator_type():
        return nullcontext()
    return torch.accelerator.device_index(device.index)


class _Building(ExitStack):
    """What `building_on` gives; no generator, which would touch errors that pass through."""

    def __init__(self, device: torch.device | None) -> None:
        super().__init__()
        self._device = device

    def __enter__(self: Self) -> Self:
        is_grad_enabled = torch.is_grad_enabled()  # Leaving inference mode would enable it.
        try:
            self.enter_context(as_current(self._device))
            fake = torch._C._unset_dispatch_mode(_FAKE)
            if fake is not None:
                self.callback(torch._C._set_dispatch_mode, fake)
            self.enter_context(torch.inference_mode(False))
            self.enter_context(torch.set_grad_enabled(is_grad_enabled))
        except BaseException:  # Interrupted, it leaves all modes as they were.
            self.close()
            raise
        return self


def building_on(device: torch.device | None) -> AbstractContextManager[object]:
    """A context for building what outlives the call: `device` is current, tensors are ordinary.

    The call may run in inference mode, whose tensors later calls could neither write nor
    differentiate, or under a fake-tensor mode, whose tensors hold nothing.
    """
    return _Building(device)


def usable_device(name: str) -> torch.device:
    """The device of this name, in normal form, when tensors can be made on it.

    Raises:
        OpNotAvailableError: torch does not know the device, or this process does not have it.
    """
    try:
        device = torch.device(name)
        if device.type == "cpu" and device.index:
            raise RuntimeError("there is one CPU, called cpu")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        # Builds without an accelerator raise an AssertionError from its lazy initialisation, or
        # miss the module that would do it. What follows the first sentence lists torch's backends.
        reason = str(error).partition("\n")[0].partition(". ")[0]
        if isinstance(error, ImportError):
            reason = "no package has made it known to torch, by the entry points torch.backends"
        raise OpNotAvailableError(f"device {name} cannot be used: {reason}") from error
    return normal_form(device)


def has_cuda(device: torch.device | None) -> bool:
    """Whether a device is a CUDA device of this process; that of a fake tensor need not be."""
    return device is not None and device.type == "cuda" and accelerator_type() == "cuda"


def made_to_last(device: torch.device, make: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
    """Tensors on a device that are kept beyond the call, ordinary ones without history.

    A CUDA graph may be allocating on this thread or stream just now, from a pool in which it must
    not find memory that it does not know. So another thread makes them, on another stream. While a
    graph is captured they belong to it; under a fake-tensor mode, of which that thread would know
    nothing, they are fake.

    Args:
        device: where they are.
        make: makes them; what it reads is there when the current stream has come this far.
    """

    def ordinary() -> Sequence[Tensor]:
        with torch.inference_mode(False), torch.no_grad():
            return make()

    is_faked = torch._C._get_dispatch_mode(_FAKE) is not None
    if is_faked or not has_cuda(device) or torch.cuda.is_current_stream_capturing():
        return ordinary()
    stream = torch.cuda.current_stream(device)
    other = torch.cuda.Stream(stream.device)
    other.wait_stream(stream)

    def beside() -> Sequence[Tensor]:
        with torch.cuda.stream(other):
            return ordinary()

    with ThreadPoolExecutor(1) as executor:
        made = executor.submit(beside).result()
    stream.wait_stream(other)
    for tensor in made:
        if tensor.is_cuda:
            tensor.record_stream(stream)  # once dropped, it is used again after what reads it here
    return made
