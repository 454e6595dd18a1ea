"""Compiles the machine and generated kernels with g++, each once per content."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
from pathlib import Path

from emulation.emulator.lowering import Lowered

_MACHINE = Path(__file__).parent / "machine"
_FLAGS = ("-std=c++17", "-march=native", "-fno-strict-aliasing", "-fPIC", "-shared", "-w")


def machine(folder: Path) -> Path:
    """The shared library of the machine, compiled into `folder`."""
    parts = sorted(_MACHINE.glob("*.cpp"))
    text = "".join(part.read_text() for part in sorted(_MACHINE.iterdir()))
    library = folder / f"libmachine-{_digest(text)}.so"
    if not library.exists():
        _compile(parts, library, "-O2")
    return library


def kernel(lowered: Lowered, name: str, folder: Path) -> ctypes.CDLL:
    """A generated kernel with an entry that takes an array of argument addresses."""
    library = machine(folder)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    source = _translated(lowered, name)
    built = folder / f"{name}-{_digest(source + library.name)}.so"
    if not built.exists():
        text = built.with_suffix(".cpp")
        text.write_text(source)
        # Alignment is checked through a handler that the machine defines.
        _compile([text, library], built, "-O1", "-fsanitize=alignment", f"-I{_MACHINE}")
    return ctypes.CDLL(str(built))


def _compile(inputs: list[Path], output: Path, *flags: str) -> None:
    partial = output.with_suffix(f".{os.getpid()}.part")  # another process may build the same
    command = ["g++", *_FLAGS, *flags, *map(str, inputs), "-o", str(partial)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[:4000]}")
    partial.replace(output)


def _translated(lowered: Lowered, name: str) -> str:
    """The generated source as C++ for the machine, with an entry for one of its kernels."""
    source = re.sub(r"#if defined\(_MSC_VER\).*?#endif", "", lowered.source, count=1, flags=re.S)
    source = re.sub(r"#include <[^>]*>", "", source)
    source = re.sub(
        r"extern __shared__ __align__\(\d+\) (\w+) (\w+)\[\];",
        r"\1* \2 = reinterpret_cast<\1*>(emu::self->block->shared);",
        source,
    )
    source = re.sub(
        r"__shared__ __align__\(\d+\) (\w+) (\w+)\[(\d+)\];",
        r"\1* \2 = static_cast<\1*>(emu::static_shared(__COUNTER__, sizeof(\1) * \3));",
        source,
    )
    values = ", ".join(
        f"*reinterpret_cast<{_argument_type(text)}*>(values[{place}])"
        for place, text in enumerate(lowered.parameters[name])
    )
    entry = f'extern "C" void emu_entry(void** values) {{ {name}({values}); }}\n'
    return f'#include "tilelang.h"\n{source}\n{entry}'


def _argument_type(parameter: str) -> str:
    """The type of a C parameter, without its name."""
    text = parameter.replace("__restrict__", "").replace("__grid_constant__", "").strip()
    return text[: text.rindex("*") + 1] if "*" in text else text.rsplit(" ", 1)[0]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
