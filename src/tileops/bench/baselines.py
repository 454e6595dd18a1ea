"""What ops are compared with: functions of other libraries, by library and op.

The functions lie in a folder of modules, `benchmarks/baselines/` in a checkout, one per family.
Loading a module registers the functions that it decorates. A function takes the op, for its
parameters, and the inputs in the order of the spec, None for one that is not passed; it returns
what the op returns. It raises `NotImplementedError` for what its library cannot do. Libraries are
optional: one that is not installed has no version and is left out.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from zlib import crc32

import torch

import tileops
from tileops import Op
from tileops._core.dispatch.table import install
from tileops.backend import BUILTIN
from tileops.errors import TileOpsError

COMPILED, PLAIN = "torch-compile", "torch"
"""The compiler is no library of its own: it compiles the functions of `torch`."""

Baseline = Callable[..., Any]


class BaselineFault(TileOpsError, ValueError):
    """Comparisons that were asked for and cannot be made."""


@dataclass(frozen=True)
class Library:
    """A library whose functions are compared with.

    Args:
        name: as it is asked for.
        version: says its version, None where it is not installed.
        devices: device types it runs on.
        package: what `pip install` takes to bring it; None where it comes by other ways.
        functions: by the op that each is compared with.
    """

    name: str
    version: Callable[[], str | None]
    devices: frozenset[str]
    package: str | None
    functions: dict[str, Baseline] = field(default_factory=dict)


@dataclass(frozen=True)
class Rival:
    """A library that can be compared with here.

    Args:
        name: the library's name.
        version: the installed version.
        functions: by op.
        compiled: whether functions are compiled first.
    """

    name: str
    version: str
    functions: dict[str, Baseline]
    compiled: bool = False

    def serves(self, op: str) -> bool:
        """Whether there is a function for an op of this name."""
        return op in self.functions

    def function(self, op: Any) -> Callable[..., Any] | None:
        """The function for an instance of an op, its parameters bound; None if there is none."""
        found = self.functions.get(type(op).__name__)
        if found is None:
            return None

        def bound(*inputs: Any) -> Any:
            return found(op, *inputs)

        return torch.compile(bound, dynamic=False) if self.compiled else bound


class OwnRival(Rival):
    """The op as it is without packages: by this library's own kernels, whatever others added."""

    def serves(self, op: str) -> bool:
        """Every op serves itself."""
        return True

    def function(self, op: Any) -> Callable[..., Any] | None:
        """A second instance with the same parameters."""
        given = {name: getattr(op, name) for name in op._parameter_names}
        twin: Op = type(op)(**given, target=BUILTIN)
        twin._use_table(install(type(op).__name__, op.interfaces, op.kernel_types, {}))
        return twin


_libraries: dict[str, Library] = {}
_loaded: set[Path] = set()


def library(
    name: str,
    version: Callable[[], str | None],
    devices: Iterable[str] = ("cpu", "cuda"),
    package: str | None = None,
) -> None:
    """Make a library known.

    Args:
        name: as it is asked for.
        version: says its version, None where it is not installed.
        devices: device types it runs on.
        package: what `pip install` takes to bring it; None where it comes by other ways.
    """
    _libraries.setdefault(name, Library(name, version, frozenset(devices), package))


def baseline(name: str, *ops: str) -> Callable[[Baseline], Baseline]:
    """Register a function of a library as the comparison of ops.

    Args:
        name: the library.
        ops: names of the ops.

    Raises:
        BaselineFault: no library of this name was made known.
    """

    def register(function: Baseline) -> Baseline:
        if name not in _libraries:
            raise BaselineFault(
                f"no library is called {name}: make it known by library({name!r}, …) in "
                "libraries.py of the same folder, which is loaded first"
            )
        _libraries[name].functions.update(dict.fromkeys(ops, function))
        return function

    return register


def default_folder() -> Path:
    """Where a checkout keeps its comparisons."""
    return Path(tileops.__file__).resolve().parents[2] / "benchmarks" / "baselines"


def load(folder: Path) -> None:
    """Load every module of a folder, those that name libraries first.

    Raises:
        BaselineFault: there is no such folder, or a module does not load.
    """
    if not folder.is_dir():
        raise BaselineFault(
            f"comparisons are modules in a folder, and {folder} is none: --baselines names one, "
            "such as benchmarks/baselines in a checkout of tileops"
        )
    files = sorted(folder.glob("*.py"), key=lambda file: (file.stem != "libraries", file.name))
    for file in (each.resolve() for each in files):
        if file not in _loaded:
            _load(file)
            _loaded.add(file)


def _load(file: Path) -> None:
    """Load one module, under a name of its own by which torch's compiler finds it again."""
    name = f"tileops_baselines_{crc32(bytes(file.parent)):08x}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise BaselineFault(f"{file}: {type(error).__name__}: {error}") from error


def _release() -> str:
    """This library's version."""
    try:
        return version("tileops")
    except PackageNotFoundError:
        return "a checkout that is not installed"


def rivals(names: Iterable[str], device: torch.device) -> list[Rival]:
    """The named libraries, each checked to be one that can be compared with here.

    Args:
        names: libraries that were loaded, and `torch-compile`.
        device: where the comparison runs.

    Raises:
        BaselineFault: a library is unknown, not installed, or not for the device.
    """
    return [_rival(name, device) for name in names]


def _rival(name: str, device: torch.device) -> Rival:
    if name == BUILTIN:
        return OwnRival(name, _release(), {})
    found = _libraries.get(PLAIN if name == COMPILED else name)
    if found is None:
        known = ", ".join(sorted({*_libraries, COMPILED, BUILTIN}))
        raise BaselineFault(f"no comparison is called {name}; known: {known}")
    if device.type not in found.devices:
        raise BaselineFault(f"{name} does not run on {device.type}")
    installed = found.version()
    if installed is None:
        hint = f"; `pip install {found.package}` brings it" if found.package else ""
        raise BaselineFault(f"{name} is not installed{hint}")
    return Rival(name, installed, found.functions, name == COMPILED)
