"""From a spec to every decision about its op class: the plan, and the static checks."""

from tileops._core.signature.build import PlanFault, build_plan
from tileops._core.signature.check import check_spec

__all__ = ["PlanFault", "build_plan", "check_spec"]
