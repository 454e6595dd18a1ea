"""Tuning: timing a kernel's candidate configurations and keeping the fastest.

Candidates run on a probe, a copy of the kernel with programs of its own, so that launches in other
threads never meet a configuration under test. The answer is kept per kernel class, constants,
device and shape class in the cache folder, one file each: written whole and renamed into place, so
that neither a second process nor a damaged file does harm. Tuning changes speed, never results.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from tileops._core.devices import accelerator_type
from tileops._core.dispatch.toolchain import dtype_name
from tileops._core.lang.values import shown
from tileops._core.locks import make_lock
from tileops._core.plugins import described

if TYPE_CHECKING:
    from tileops._core.dispatch.kernel import Kernel

Config = Mapping[str, Any]
"""Tile sizes, stages and the like, by name."""

_WARM_UP, _LAUNCHES = 2, 10


class Seen(NamedTuple):
    """What is remembered of a tensor that a kernel was launched with."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


def config_key(kernel: str, config: Config) -> Hashable:
    """A configuration as a key of the program table.

    Args:
        kernel: name of its kernel class.
        config: the configuration.

    Raises:
        TypeError: a value of it cannot be hashed.
    """
    for name, value in config.items():
        try:
            hash(value)
        except TypeError as error:
            raise TypeError(
                f"{kernel}: the configuration's {name} is {shown(value)}, which cannot be hashed "
                "and so cannot tell programs apart"
            ) from error
    return frozenset(config.items())


def remember(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a launch, with every tensor reduced to what it looks like."""
    return tuple(
        [
            Seen(value.shape, value.dtype, value.device)
            if isinstance(value, torch.Tensor)
            else value
            for value in args
        ]
    )


def renewed(kernel: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments like the remembered ones, with new random tensors.

    Raises:
        ValueError: some tensor is not floating point.
    """
    exact = [
        f"argument {place} ({dtype_name(value.dtype)})"
        for place, value in enumerate(args)
        if isinstance(value, Seen) and not (value.dtype.is_floating_point or value.dtype.is_complex)
    ]
    if exact:
        raise ValueError(
            f"{kernel} cannot be tuned with random contents for {', '.join(exact)}; "
            "override tuning_inputs()"
        )
    return tuple(
        _random_like(value, place) if isinstance(value, Seen) else value
        for place, value in enumerate(args)
    )


def _random_like(seen: Seen, seed: int) -> torch.Tensor:
    """A new tensor from a generator of its own: the caller's random numbers stay as they were."""
    drawn = torch.complex64 if seen.dtype.is_complex else torch.float32
    generator = torch.Generator(seen.device).manual_seed(seed)
    values = torch.randn(seen.shape, generator=generator, dtype=drawn, device=seen.device)
    return values.to(seen.dtype)


def tune(kernel: Kernel) -> None:
    """Set the kernel's configuration to the fastest candidate that runs."""
    candidates = tuple(kernel.autotune_configs or ())
    inputs = kernel.tuning_inputs()
    key = _key(kernel, candidates, inputs)
    probe = copy.copy(kernel)
    probe._lock = make_lock()
    probe._programs = dict(kernel._programs)
    known = _load(key, len(candidates))
    if known is not None and _runs(probe, candidates[known], inputs):
        _adopt(kernel, probe, candidates[known])
        return
    best, errors = _fastest(probe, candidates, inputs)
    if best is None:
        last = f"; the last one: {described(errors[-1])}" if errors else ""
        warnings.warn(
            f"{type(kernel).__name__}: none of {len(candidates)} tuning candidates ran{last}",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    _adopt(kernel, probe, candidates[best])
    _store(key, best)


def _adopt(kernel: Kernel, probe: Kernel, config: Config) -> None:
    """Have the kernel launch a configuration, with the programs that were made to try it."""
    kernel._programs.update(probe._programs)
    kernel.config = config


def _runs(probe: Kernel, config: Config, inputs: tuple[Any, ...]) -> bool:
    """Whether a configuration that was kept still runs: the compiler may be another since."""
    try:
        probe.config = config
        probe.forward(*inputs)
    except Exception:
        return False
    return True


def _fastest(
    probe: Kernel, candidates: Sequence[Config], inputs: tuple[Any, ...]
) -> tuple[int | None, list[Exception]]:
    """The place of the fastest candidate, and what those that did not run raised."""
    device = next((value.device for value in inputs if isinstance(value, torch.Tensor)), None)
    times: dict[int, float] = {}
    errors: list[Exception] = []
    for place, config in enumerate(candidates):
        try:
            probe.config = config
            times[place] = time_launch(lambda: probe.forward(*inputs), device)
        except Exception as error:  # a candidate may be no key, not compile, or not launch
            errors.append(error)
    return min(times, key=times.__getitem__, default=None), errors


def time_launch(launch: Callable[[], Any], device: torch.device | None) -> float:
    """Median seconds of one launch, measured on the device."""
    from statistics import median  # Takes as long to load as ten modules; few processes tune.

    for _ in range(_WARM_UP):
        launch()
    if device is None or device.type != accelerator_type():
        return median(_host_seconds(launch) for _ in range(_LAUNCHES))
    # A fill between launches empties the cache and lets the host run ahead of the device.
    scratch = torch.empty(1 << 26, dtype=torch.float32, device=device)
    pairs = []
    for _ in range(_LAUNCHES):
        scratch.zero_()
        start, stop = (torch.Event(device, enable_timing=True) for _ in range(2))
        start.record()
        launch()
        stop.record()
        pairs.append((start, stop))
    torch.accelerator.synchronize(device)
    return median(start.elapsed_time(stop) for start, stop in pairs) / 1e3


def _host_seconds(launch: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    launch()
    return time.perf_counter() - begin


def cache_folder() -> Path:
    """Where results outlive the process: `TILEOPS_CACHE_DIR`, else the user's cache folder.

    Raises:
        OSError: the user has no home.
    """
    chosen = os.environ.get("TILEOPS_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "tileops"
    except RuntimeError as error:
        raise OSError(f"{error} Set TILEOPS_CACHE_DIR.") from error


def _key(kernel: Kernel, candidates: Sequence[Config], inputs: tuple[Any, ...]) -> dict[str, Any]:
    """What a result depends on, as JSON data."""
    kind = type(kernel)
    constants = {
        name: repr(value) for name, value in sorted(vars(kernel).items()) if name[0] != "_"
    }
    return {
        "kernel": f"{kind.__module__}.{kind.__qualname__}",
        "constants": constants,
        "candidates": [sorted(map(repr, config.items())) for config in candidates],
        "device": _device_name(inputs),
        "shapes": [_shape_class(value) for value in inputs],
    }


def _device_name(inputs: tuple[Any, ...]) -> str:
    for value in inputs:
        if isinstance(value, torch.Tensor):
            if value.is_cuda:
                return torch.cuda.get_device_name(value.device)
            return value.device.type
    return ""


def _shape_class(value: Any) -> str:
    """Shapes count as alike when every extent lies below the same power of two."""
    if not isinstance(value, torch.Tensor):
        return repr(value)
    extents = [1 << (size - 1).bit_length() if size else 0 for size in value.shape]
    return f"{value.dtype}{extents}"


def _file(key: dict[str, Any]) -> Path:
    text = json.dumps(key, sort_keys=True)
    name = f"{key['kernel'].rpartition('.')[2]}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    return cache_folder() / "tuning" / f"{name}.json"


def _load(key: dict[str, Any], count: int) -> int | None:
    """The place of the candidate kept under `key`; a missing or damaged file counts as none."""
    try:
        kept = json.loads(_file(key).read_text())
        place = kept["candidate"]
        if kept["key"] == key and type(place) is int and place in range(count):
            return place
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    return None


def _store(key: dict[str, Any], place: int) -> None:
    try:
        target = _file(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(target, json.dumps({"key": key, "candidate": place}, indent=1))
    except OSError as error:
        warnings.warn(
            f"the tuning result of {key['kernel']} could not be kept: {error}",
            RuntimeWarning,
            stacklevel=3,
        )


def _write_whole(target: Path, text: str) -> None:
    """Write a file that others see whole or not at all; a failure leaves nothing behind."""
    handle, name = tempfile.mkstemp(".part", target.stem, target.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
