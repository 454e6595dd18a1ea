"""The names that generated source may refer to, and nothing else.

None starts with a prefix that generated variables have, so no name of a spec can hide one.
"""

from tileops._core.lang.primitives.axes import per_axis, reduced, unique_axes, valid_axes
from tileops._core.lang.primitives.conv import out as conv_out
from tileops._core.lang.primitives.mhc import expansion as mhc_expansion
from tileops._core.lang.primitives.moe import capacity as moe_capacity
from tileops._core.lang.primitives.pool import out as pool_out
from tileops._core.lang.primitives.scalars import (
    category,
    coalesce_dtype,
    promote_int_to_float,
    representable,
)
from tileops._core.lang.primitives.sizes import all as all_of
from tileops._core.lang.primitives.sizes import broadcast, ceil_div, prod
from tileops._core.lang.primitives.sizes import max as max_of
from tileops._core.lang.primitives.sizes import min as min_of
from tileops._core.lang.primitives.sizes import sum as sum_of
from tileops._core.runtime.construction import Constructed, discriminant, literal
from tileops._core.runtime.failures import Faults
from tileops._core.runtime.overlap import items_are_distinct
from tileops._core.runtime.placement import CONFLICT, call_device, held, placed
from tileops._core.runtime.record import Branches, CallFacts, SignatureCall
from tileops._core.runtime.results import (
    check_identity,
    check_new,
    check_nothing,
    check_output,
    returned,
)
from tileops._core.runtime.symbolic import (
    EVALUATION_FAULTS,
    contains,
    equal,
    nonzero,
    same_items,
    sym_and,
    sym_if,
    sym_not,
    sym_or,
)
from tileops._core.runtime.tensors import (
    buffer_misfit,
    described_as,
    differ,
    is_combination,
    is_ordinary,
    is_tensor,
    name_of_dtype,
    on_cpu,
)
from tileops._core.signature.plan import EffectBranch

__all__ = [
    "CONFLICT",
    "EVALUATION_FAULTS",
    "Branches",
    "CallFacts",
    "Constructed",
    "EffectBranch",
    "Faults",
    "SignatureCall",
    "all_of",
    "broadcast",
    "buffer_misfit",
    "call_device",
    "category",
    "ceil_div",
    "check_identity",
    "check_nothing",
    "check_new",
    "check_output",
    "coalesce_dtype",
    "contains",
    "conv_out",
    "described_as",
    "differ",
    "discriminant",
    "equal",
    "held",
    "name_of_dtype",
    "is_combination",
    "is_ordinary",
    "is_tensor",
    "items_are_distinct",
    "literal",
    "max_of",
    "mhc_expansion",
    "min_of",
    "moe_capacity",
    "nonzero",
    "on_cpu",
    "per_axis",
    "placed",
    "pool_out",
    "prod",
    "promote_int_to_float",
    "reduced",
    "representable",
    "returned",
    "same_items",
    "sum_of",
    "sym_and",
    "sym_if",
    "sym_not",
    "sym_or",
    "unique_axes",
    "valid_axes",
]
