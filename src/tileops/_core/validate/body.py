"""What the text of a class plainly says: what `__init__` keeps, what `forward` asks for (53).

Only a class's own methods are read, and only what nothing they do could make right is told: where
an instance is handed to other code, be it a decorator or a property, or the text is not there,
nothing is said.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from tokenize import TokenError
from types import FunctionType
from typing import Any

import tileops
from tileops._core.lang.spelling import suggest
from tileops._core.spec.model import Finding, OpSpec

_ASKING = {
    "kernel_for": "interfaces", "kernel_for_fields": "interfaces", "delegate_for": "delegate_types"
}  # fmt: skip
"""Methods whose first argument names something, and what of the class declares it."""
_KEEPING = ("__new__", "__setattr__", "__getattr__", "__getattribute__")
"""Methods by which a class could keep what `__init__` does not plainly assign."""


def check_bodies(spec: OpSpec, cls: type[Any]) -> Iterator[Finding]:
    """Findings about the methods that a class defines."""
    for method, check in (("__init__", _check_init), ("forward", _check_forward)):
        node = _own(cls, method)
        if node is not None:
            yield from check(spec, cls, node)


def _own(cls: type[Any], method: str) -> ast.FunctionDef | None:
    """A method as the class writes it; None where it has none, or its text is not there."""
    function = vars(cls).get(method)
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        return None
    try:
        text = inspect.getsource(function)
        tree = ast.parse(f"if True:\n{text}" if text[:1].isspace() else text)
    except (OSError, SyntaxError, TokenError):
        return None
    node = next((each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)), None)
    if node is None or node.name != method or node.decorator_list:
        return None
    return node if _positional(node) else None


def _check_forward(spec: OpSpec, cls: type[Any], node: ast.FunctionDef) -> Iterator[Finding]:
    """`forward` asks for declared interfaces and stages, where it names them."""
    ours = {name for name in _ASKING if getattr(cls, name) is getattr(tileops.Op, name)}
    if "kernel_for" not in ours:
        ours.discard("kernel_for_fields")  # which ends there
    asking = {each: each.attr for each in _attributes(node, _self(node)) if each.attr in ours}
    for call in ast.walk(node):
        if not (isinstance(call, ast.Call) and call.func in asking and call.args):
            continue
        declaring, name = _ASKING[asking[call.func]], call.args[0]
        declared = list(getattr(cls, declaring))
        if isinstance(name, ast.Constant) and name.value not in declared:
            hint = suggest(str(name.value), declared)
            yield _error(spec, f"forward asks for {name.value!r}, no key of {declaring}{hint}")


def _check_init(spec: OpSpec, cls: type[Any], node: ast.FunctionDef) -> Iterator[Finding]:
    """`__init__` calls that of `Op`, and keeps every parameter."""
    own = _self(node)
    attributes = list(_attributes(node, own))
    uses = sum(isinstance(each, ast.Name) and each.id == own for each in ast.walk(node))
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    supers = [call for call in calls if _is_super(call)]
    inits = [call for call in calls if _is_super_init(call)]
    hands_out = uses > len(attributes) or len(supers) > len(inits)
    hands_out = hands_out or any(call.func in attributes for call in calls)
    if hands_out or any(_is_odd(each.attr, cls) for each in attributes):
        return
    if not inits:
        yield _error(spec, "__init__ never calls super().__init__(target=target)")
    elif super(cls, cls).__init__ is tileops.Op.__init__ and _keeps_plainly(cls):
        if not any(init.args or init.keywords for init in inits):
            yield _error(spec, "__init__ calls super().__init__() without target=target")
        stored = {each.attr for each in attributes if isinstance(each.ctx, ast.Store)}
        for name in spec.signature.params:
            if name not in stored and not hasattr(cls, name):
                yield _error(spec, f"__init__ never assigns self.{name}")


def _is_odd(attr: str, cls: type[Any]) -> bool:
    """Whether an attribute reaches an instance's innards, as `__dict__`, or runs other code."""
    return attr.startswith("__") or hasattr(inspect.getattr_static(cls, attr, None), "__get__")


def _keeps_plainly(cls: type[Any]) -> bool:
    """Whether attributes of an instance are what was assigned to them, and nothing else."""
    return all(getattr(cls, name, None) is getattr(tileops.Op, name, None) for name in _KEEPING)


def _self(node: ast.FunctionDef) -> str:
    """What a method calls its instance."""
    return _positional(node)[0].arg


def _positional(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args]


def _attributes(node: ast.FunctionDef, owner: str) -> Iterator[ast.Attribute]:
    """The attributes of a name."""
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and (
            isinstance(each.value, ast.Name) and each.value.id == owner
        ):
            yield each


def _is_super(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "super"


def _is_super_init(call: ast.Call) -> bool:
    owner = call.func
    return (
        isinstance(owner, ast.Attribute)
        and owner.attr == "__init__"
        and isinstance(owner.value, ast.Call)
        and _is_super(owner.value)
    )


def _error(spec: OpSpec, message: str) -> Finding:
    return Finding.of(spec.name, "", 53, message)
