"""The backward op of an op whose spec names one, made when a gradient is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileops._core import plugins
from tileops._core.devices import building_on
from tileops._core.op.define import find_class
from tileops._core.op.tuned import Tuned
from tileops._core.runtime.placement import as_bound
from tileops._core.spec.registry import lookup
from tileops.errors import OpNotAvailableError

if TYPE_CHECKING:
    from tileops._core.op.base import Op


class Differentiated(Tuned):
    """How an op gets its gradients computed."""

    def _backward(self) -> Op:
        """The instance that computes gradients; parameters of the same name are passed on."""
        if self._backward_op is not None:
            return self._backward_op  # A compiler that traces a formula takes up no lock.
        with self._turn("backward"):
            if self._backward_op is None:
                cls = self._backward_class()
                # Those of the signature: a class that inherits its spec lists none itself.
                own = self._signature.parameter_names
                shared = [name for name in cls._parameter_names if name in own]
                params = {name: as_bound(self, name) for name in shared}
                with building_on(None):
                    op = cls(**params, target=self.target)
                self._backward_op = op
                if self._tune_requested:
                    op.request_tune()
            return self._backward_op

    def _backward_class(self) -> type[Op]:
        assert self._spec.backward is not None
        name = self._spec.backward.op
        spec = lookup(name)
        if spec is not None and spec.home is not None:
            plugins.module(f"{spec.home}.ops")
        cls = find_class(name)
        if cls is None:
            raise OpNotAvailableError(
                f"{self._name}: its gradients are computed by {name}, of which there is no class: "
                "import the package that defines it"
            )
        return cls
