"""Construction: five steps in one order, none of which asks a device or builds a kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import torch

from tileops._core import instances
from tileops._core.dispatch.table import EMPTY_TABLE, ImplementationTable, install
from tileops._core.lang.values import shown
from tileops._core.locks import make_lock
from tileops._core.notes import add_note
from tileops._core.op.state import OpState
from tileops._core.runtime.construction import Constructed
from tileops._core.targets import loading, registry
from tileops._core.targets.registry import BUILTIN

_tables: WeakKeyDictionary[type, tuple[tuple[Any, ...], ImplementationTable]] = WeakKeyDictionary()


class Construction(OpState):
    """What `Op.__init__` does."""

    def __init__(self, *, target: str | None = None) -> None:
        """Construct the base; a subclass has assigned its parameters before.

        Args:
            target: the target that serves the instance; `BUILTIN` for its own body; None
                lets the process default or the device of the first call decide.

        Raises:
            TypeError: `target` is neither None nor a non-empty string.
            RuntimeError: the instance is constructed already, or inside a compiled function.
            BackendError: a backend package constructs an op while it is imported.
        """
        if torch.compiler.is_dynamo_compiling():
            raise RuntimeError(
                f"{type(self).__name__}: an op is constructed once, outside the compiled function "
                "that calls it"
            )
        if self._instance_key is not None:
            raise RuntimeError(f"{type(self).__name__}: Op.__init__ ran twice on one instance")
        asked: object = target
        if not (asked is None or (isinstance(asked, str) and asked)):
            raise TypeError(
                f"{type(self).__name__}: target must be None, {BUILTIN!r} or the name of a target, "
                f"got {shown(asked)}"
            )
        self.target = target
        loading.ensure_complete(type(self).__name__)
        self._construction_indices = self._check_construction()
        self._keep_parameters()
        self._install_table()
        self._entries_by_call = {}
        self._built_entries = {}
        self._instance_key = instances.register(self)
        self._create_tables()

    def _check_construction(self) -> Constructed:
        """Check the parameters and return what construction solves; generated from a spec."""
        return Constructed({}, {}, {})

    def _keep_parameters(self) -> None:
        """Bind the checked values in place of those that the caller may still change.

        Attributes that expressions see in another form, as the name of a dtype, stay.
        """
        attributes = vars(self)
        for name, value in self._construction_indices.parameters.items():
            if name in attributes and not isinstance(value, str):
                setattr(self, name, value)

    def _install_table(self) -> None:
        """Take over the class's implementation table with what backends added."""
        self._check_declared(type(self).__name__, self)
        if self.kernel_types or self.interfaces or registry.current.kernel_types:
            self._use_table(implementation_table(type(self)))

    @staticmethod
    def _check_declared(op: str, owner: object) -> None:
        """Refuse what the class of an op, or an instance, declares in another form than a mapping.

        Raises:
            TypeError: a declaration is no mapping.
        """
        for name in ("kernel_types", "interfaces", "delegate_types"):
            declared: object = getattr(owner, name)
            if not isinstance(declared, Mapping):
                raise TypeError(f"{op}: {name} must be a mapping, got a {type(declared).__name__}")

    @classmethod
    def _own_table(cls) -> ImplementationTable:
        """The table of what the class declares, without what backends added.

        Raises:
            Exception: as `install`.
        """
        return install(cls.__name__, cls.interfaces, cls.kernel_types, {})

    @classmethod
    def _added_kernel_types(cls) -> Mapping[str, Any]:
        """The kernel types that backends added."""
        return registry.added_kernel_types(cls.__name__)

    def _use_table(self, table: ImplementationTable) -> None:
        self._installed_kernel_types = table.kernel_types
        self._keys_by_interface = table.keys_by_interface
        self._preferred_over = table.preferred_over

    def _create_tables(self) -> None:
        """Create the locks and the tables that calls fill."""
        self._target_kernels = {}
        self._unsettled_calls = {}
        self._delegates = {}
        self._delegate_stages = {}
        self._effect_branches = {}
        self._placed_tensors = {}
        self._known_calls = {}
        self._has_stages = bool(self.delegate_types)
        self._bind_lock = make_lock()
        self._build_lock = make_lock()
        self._turns = WeakValueDictionary()


def implementation_table(cls: type[OpState]) -> ImplementationTable:
    """The checked table of an op class; kept until the class or the registry changes.

    Raises:
        TypeError: an interface or an implementation has the wrong form.
        ValueError: keys or preferences contradict each other.
    """
    declared = *cls.kernel_types.items(), *cls.interfaces.items()
    basis = (registry.current.version, declared)
    known = _tables.get(cls)
    if known is not None and known[0] == basis:
        return known[1]
    added = registry.added_kernel_types(cls.__name__)
    if cls.kernel_types or cls.interfaces or added:
        try:
            table = install(cls.__name__, cls.interfaces, cls.kernel_types, added)
        except Exception as error:
            if added:
                add_note(error, registry.who_added(cls.__name__))
            raise
    else:
        table = EMPTY_TABLE
    _tables[cls] = (basis, table)
    return table
