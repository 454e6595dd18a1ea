"""From a spec to every decision about its op class: the plan.

The static checks are in `check`, which an import of an op does without.
"""

from tileops._core.signature.build import PlanFault, build_plan

__all__ = ["PlanFault", "build_plan"]
