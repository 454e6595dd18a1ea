"""Properties that are computed once, without a lock.

Those of the standard library hold a lock of their class meanwhile, up to Python 3.11. Threads wait
for it that compute the property of another instance, and a child that was forked by another thread
waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class cached_property(Generic[Value]):  # noqa: N801  It is written like `property`.
    """A property that an instance keeps; of threads that compute it at once, the first's stays."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: Any, owner: type) -> cached_property[Value] | Value:
        """The value; kept where it is found before the property is asked again."""
        if instance is None:
            return self
        value: Value = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
