"""Say what this installation has: versions, devices, plug-ins, and what failed to load.

Fails when a backend, a pack or a spec file could not be loaded, when what a backend registered is
for no op, keeps one from being constructed or cannot answer for its calls, and when a device has no
clear target, or one that serves no op. What may be meant otherwise than it is written is advice,
and no failure. A missing GPU or TileLang is no failure: the portable kernels need neither.

--measure measures what a device can do, copies and products in each dtype, and keeps it as the
profile that `tileops run` and `tileops bench` set times against.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from tileops._core.plugins import described, failure_of, strays, unreadable
from tileops._core.spec import registry
from tileops.cli.options import add_device, add_json
from tileops.cli.output import UsageFault, painted, print_json, table
from tileops.cli.plugin_advice import registration_advice
from tileops.cli.plugin_faults import registration_faults
from tileops.cli.plugins import plugin_rows
from tileops.cli.progress import waiting
from tileops.cli.specs import all_specs, device_named
from tileops.errors import installing

_BAD_NEWS = ("load_failures", "load_problems", "registration_faults")
_PACKAGES = ("tileops", "torch", "tilelang", "PyYAML", "safetensors", "tokenizers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--measure", action="store_true", help="measure what the device can do, and keep it"
    )
    add_device(parser, "the device of --measure")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the facts; 1 when something failed to load."""
    with waiting("asking torch and the plug-ins", silent=args.json), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* be loaded: ", RuntimeWarning)  # told in the answer
        unread = unreadable()
        _require_torch(unread)
        facts = {} if args.measure else _facts(unread)
    if args.measure:
        return _measure(args)
    if args.json:
        print_json(facts)
    else:
        print(_text(facts))
    return 0 if facts["healthy"] else 1


def _require_torch(unread: Sequence[str]) -> None:
    """Raise a fault where torch cannot be imported, without which there is nothing to ask."""
    try:
        import tileops.backend  # noqa: F401
    except Exception as error:  # torch reads entry points when it is imported
        fault = f"torch cannot be imported: {described(error)}"
        raise UsageFault("; ".join([fault, *unread])) from error


def _facts(unread: Sequence[str]) -> dict[str, Any]:
    """What is there, and what is wrong with it."""
    from tileops import backend
    from tileops._core.targets import registry as targets

    versions = {"python": platform.python_version(), **{p: _version(p) for p in _PACKAGES}}
    devices = _devices()
    backend.load_failures()  # whoever asks first has the packages loaded
    faults = registration_faults(device["device"] for device in devices)
    devices = [{**device, "target": _claiming(device["device"])} for device in devices]
    facts: dict[str, Any] = {
        "versions": versions,
        "devices": devices,
        "plugins": plugin_rows(faults),
        "ops": _op_counts(),
        "targets": list(backend.registered_targets()),
        "target_ops": {target: _ops_of(target) for target in backend.registered_targets()},
        "default_target": backend.default_target(),
        "load_failures": [str(line) for line in backend.load_failures()],
        "load_problems": [
            *(f"{found.subject}: {found.message}" for found in registry.load_problems()),
            *unread,
            *strays((registry.GROUP, targets.GROUP)),
        ],
        "registration_faults": list(map(str, faults)),
        "registration_advice": list(map(str, registration_advice())),
    }
    return {**facts, "healthy": not any(facts[bad] for bad in _BAD_NEWS)}


def _measure(args: argparse.Namespace) -> int:
    """Measure a device, keep its profile, print the rates."""
    from tileops.bench.ceilings import ceilings, write_profile
    from tileops.bench.profiles import unit_text

    device = device_named(args.device)
    if device.type not in {"cpu", "cuda"}:
        raise UsageFault(f"device {device} cannot be measured: it is neither cpu nor cuda")
    with waiting(f"measuring {device}", silent=args.json) as tell:
        rates = ceilings(device, tell)
    file = write_profile(device, rates)
    if args.json:
        print_json({"file": str(file), "rates": rates})
    else:
        rows = [
            (unit_text(name, device.type), f"{rate / 1e9:,.1f}") for name, rate in rates.items()
        ]
        print(table(("unit", "10^9 a second"), rows, right=frozenset({1})))
        print(f"kept in {file}")
    return 0


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _devices() -> list[dict[str, Any]]:
    """The CPU and every device of the accelerator, with what selects kernels on it."""
    import torch

    found: list[dict[str, Any]] = [{"device": "cpu", "name": platform.processor() or "CPU"}]
    if not torch.cuda.is_available():
        return found
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            {
                "device": f"cuda:{index}",
                "name": properties.name,
                "arch": 10 * properties.major + properties.minor,
                "multiprocessors": properties.multi_processor_count,
                "memory_bytes": properties.total_memory,
            }
        )
    return found


def _claiming(device: str) -> str | None:
    """The target that claims a device; None where none does, or it is not clear."""
    import torch

    from tileops._core.targets.selection import detected

    found: list[str | None] = []
    failure_of(lambda: found.append(detected(torch.device(device))))  # a fault, told as such
    return found[0] if found else None


def _ops_of(target: str) -> list[str]:
    """The ops for which a target has builders."""
    from tileops._core.targets import registry as targets

    return sorted(op for op, owner in targets.current.builders if owner == target)


def _op_counts() -> dict[str, int]:
    counts = {"implemented": 0, "spec-only": 0}
    for spec in all_specs():
        if spec.status is not None:
            counts[spec.status] += 1
    return counts


def _text(facts: dict[str, Any]) -> str:
    """The facts for people."""
    versions = [(name, version or "not installed") for name, version in facts["versions"].items()]
    devices = [
        (
            device["device"],
            device["name"],
            f"sm_{device['arch']}" if "arch" in device else "",
            f"{device['memory_bytes'] / 2**30:.0f} GiB" if "memory_bytes" in device else "",
            device["target"] or "none",
        )
        for device in facts["devices"]
    ]
    counts = facts["ops"]
    lines = [
        table(("package", "version"), versions),
        "",
        table(("device", "name", "arch", "memory", "claimed by"), devices),
        "",
        *_plugin_table(facts["plugins"]),
        f"ops: {counts['implemented']} implemented, {counts['spec-only']} by spec only",
        f"targets: {', '.join(facts['targets']) or 'none beside the built-in kernels'}",
        *(
            f"target {target} has builders for: {', '.join(ops) or 'no op'}"
            for target, ops in facts["target_ops"].items()
        ),
        f"default target: {facts['default_target'] or 'by device'}",
    ]
    if facts["versions"]["tilelang"] is None:
        stand_in = "TileLang is missing: portable kernels serve CUDA"
        lines.append(f"{stand_in}; {installing('cuda')} brings it")
    for title in _BAD_NEWS:
        lines += [f"{title.replace('_', ' ')[:-1]}: {text}" for text in facts[title]]
    lines += [f"advice: {text}" for text in facts["registration_advice"]]
    lines.append(
        painted("healthy", "green")
        if facts["healthy"]
        else painted("NOT healthy: see what is at fault", "red")
    )
    return "\n".join(lines)


def _plugin_table(plugins: list[dict[str, Any]]) -> list[str]:
    """The table of plug-ins with a blank line after it; nothing when there are none."""
    if not plugins:
        return []
    rows = [
        (each["kind"], each["name"], each["value"], f"{each['seconds']:.2f}", each["state"])
        for each in plugins
    ]
    header = ("plug-in", "name", "entry point", "seconds", "state")
    return [table(header, rows, right=frozenset({3})), ""]
