"""Kernels: what an implementation declares about itself, how it is built and how it is launched.

A kernel compiles nothing when it is imported or constructed; its program is made in the launch
that first needs it, once per configuration, under the kernel's own lock. TileLang is imported
inside `make_program` only. Candidates are timed by `tuning`.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import torch

from tileops._core.devices import accelerator_type, as_current, building_on, current_device
from tileops._core.dispatch import toolchain, tuning
from tileops._core.dispatch.facts import device_facts
from tileops._core.dispatch.tuning import Config
from tileops._core.locks import make_lock


class Kernel(ABC):
    """Base of all implementations; a subclass also inherits its kernel interfaces.

    A constructor takes only what is compiled in. What varies between calls arrives with the
    tensors of `forward` and is a symbolic dimension of the program.

    Raises:
        ValueError: the current device has an architecture that the class does not support.
    """

    devices: ClassVar[Collection[str]] = frozenset({"cuda"})
    """Device types that the kernel runs on."""
    supported_archs: ClassVar[Collection[int] | None] = None
    """Architectures that the kernel runs on; None admits every one."""
    general: ClassVar[bool] = False
    """Whether the kernel gives way to every other implementation of its interface."""
    preferred_over: ClassVar[Collection[str]] = frozenset()
    """Keys of the implementations that this one beats where both serve."""
    needs_tilelang: ClassVar[bool] = False
    """Whether `make_program` uses TileLang; true where a class defines it and nothing is said."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        said = any("needs_tilelang" in vars(each) for each in cls.__mro__ if each is not Kernel)
        if "make_program" in vars(cls) and not said:
            cls.needs_tilelang = True

    def __init__(self) -> None:
        device = current_device()
        if self.supported_archs is not None:
            arch = device_facts(device).arch
            if arch not in self.supported_archs:
                raise ValueError(
                    f"{type(self).__name__} supports the architectures "
                    f"{sorted(self.supported_archs)}, the current device has {arch}"
                )
        self._built_on = device
        self._config: Config | None = None
        self._program: Any = None
        self._programs: dict[Hashable, Any] = {}
        self._lock = make_lock()
        self._tuning_asked = False
        self._tuning_pending = False
        self._watching = True
        self._last_launch: tuple[Any, ...] | None = None

    def _demand_constructed(self) -> None:
        """Refuse an instance of a subclass whose constructor does not call this one.

        Raises:
            TypeError: `super().__init__()` was not called.
        """
        if "_last_launch" not in vars(self):
            raise TypeError(f"{type(self).__name__}.__init__ does not call super().__init__()")

    @classmethod
    def refusal(cls, call: Any) -> str | None:
        """Why the class does not serve `call`, or None when it does.

        `call` is an instance of the interface's `request`, to which an override narrows it.
        An override describes what the class itself serves and ends by asking `super()`.
        """
        if cls.needs_tilelang and not call.stated_device_facts and not toolchain.has_tilelang():
            return toolchain.missing_for(cls.__module__)
        return None

    @classmethod
    def entry_for(cls, call: Any) -> tuple[Hashable, Callable[[], Any]]:
        """The identity of the build for `call`, and what builds it; builds nothing itself."""
        return call, lambda: cls(call)  # type: ignore[call-arg]

    @property
    def default_config(self) -> Config:
        """The configuration until another one is set."""
        return {}

    @property
    def autotune_configs(self) -> Sequence[Config] | None:
        """The configurations among which tuning chooses; None leaves the kernel as it is."""
        return None

    @property
    def config(self) -> Config:
        """The configuration that the next launch uses; read-only, replaced by assignment."""
        if self._config is None:
            self._config = MappingProxyType(dict(self.default_config))
        return self._config

    @config.setter
    def config(self, value: Config) -> None:
        key = tuning.config_key(type(self).__name__, value)
        with self._lock:
            self._config = MappingProxyType(dict(value))
            self._program = self._programs.get(key)

    def make_program(self, config: Config) -> Any:
        """Compile the program for `config`."""
        raise NotImplementedError(f"{type(self).__name__} defines no program")

    def program(self) -> Any:
        """The program for the current configuration, made when it is first asked for."""
        found = self._program
        if found is not None:
            return found
        with self._lock:
            if self._program is None:
                key = tuning.config_key(type(self).__name__, self.config)
                if key not in self._programs:
                    with building_on(None):
                        self._programs[key] = self.make_program(self.config)
                self._program = self._programs[key]
            return self._program

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Launch the kernel."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Launch on the device of the first tensor argument, and tune when that is pending."""
        device = _other_device(args, kwargs)
        if device is None:
            result = self.forward(*args, **kwargs)
        else:
            with as_current(device):
                result = self.forward(*args, **kwargs)
        if self._watching:
            self._after_launch(device, args, kwargs)
        return result

    def _after_launch(
        self, device: torch.device | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Remember what tuning needs of the launch, and tune when that was asked before."""
        if self._last_launch is None and self.autotune_configs is None:
            self._watching = False
            return
        if kwargs:
            args = inspect.signature(self.forward).bind(*args, **kwargs).args
        self._last_launch = tuning.remember(args)
        if self._tuning_pending:
            with as_current(device):
                self._tune()

    def request_tune(self) -> None:
        """Tune among `autotune_configs`: now if the kernel was launched, else after its launch."""
        with self._lock:
            if self._tuning_asked:
                return
            self._tuning_asked = True
            if self.autotune_configs is None:
                return
            self._tuning_pending = True
        if self._last_launch is not None:
            with as_current(self._built_on):
                self._tune()

    def tuning_inputs(self) -> tuple[Any, ...]:
        """Arguments of `forward` for timing: random floats of the shapes last seen.

        Raises:
            ValueError: the kernel was given tensors that are not floating point; their contents
                mean something that random numbers do not have, so the class overrides this.
        """
        assert self._last_launch is not None
        return tuning.renewed(type(self).__name__, self._last_launch)

    def _tune(self) -> None:
        """Tune where that is pending; other threads go on launching meanwhile."""
        with self._lock:
            if not self._tuning_pending:
                return
            self._tuning_pending = self._watching = False
        try:
            tuning.tune(self)
        except Exception:
            raise
        except BaseException:
            # Interrupted: the next launch takes it up again.
            self._tuning_pending = self._watching = True
            raise


def _other_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """The device of the first tensor argument when it is not the current one."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            if value.is_cpu or value.is_meta:
                return None
            device = value.device
            if device.type != accelerator_type():
                return None
            return None if device.index == torch.accelerator.current_device_index() else device
    return None
