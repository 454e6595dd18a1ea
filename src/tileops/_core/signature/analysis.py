"""All that is derived from one spec on the way to its plan and its findings, each part once."""

from __future__ import annotations

from tileops._core.lang.cached import cached_property
from tileops._core.signature.actions import Catalogue
from tileops._core.signature.branches import Branches
from tileops._core.signature.discriminants import Point
from tileops._core.signature.facts import Facts
from tileops._core.signature.families import Families
from tileops._core.signature.scope import Scope
from tileops._core.signature.sites import Role, Site, sites
from tileops._core.signature.steps import Called, Constructed, Steps
from tileops._core.signature.usage import Usage, Usages
from tileops._core.spec.model import OpSpec


class Analysis:
    """One spec, taken apart.

    Args:
        spec: the spec; fields that could not be read are left out of everything.
    """

    def __init__(self, spec: OpSpec) -> None:
        self.spec = spec
        self.facts = Facts(spec)
        self.families = Families(self.facts)
        self.branches = Branches(self.facts)
        self.catalogue = Catalogue(self.facts)
        self.scope = Scope(self.facts)
        self.usage = Usages(self.catalogue, self.families)

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """Every expression with its position."""
        return sites(self.spec)

    def reads(self, site: Site) -> set[str]:
        """The discriminants that an expression, and whether it is evaluated, depend on."""
        found = set(self.facts.reads(site.node)) if site.node is not None else set()
        if site.tensor is not None and site.role is not Role.CONDITION:
            found |= {*self.facts.presence_reads(site.tensor)}
        return found

    def evaluates(self, site: Site, point: Point) -> bool:
        """Whether an expression is evaluated at a point: that of an absent tensor is not."""
        if site.tensor is None or site.role is Role.CONDITION:
            return True
        return bool(self.facts.present(site.tensor, point))

    @cached_property
    def usages(self) -> list[Usage]:
        """What each accepted branch uses."""
        return [self.usage.at(point) for point in self.branches.accepted.points]

    @cached_property
    def steps(self) -> Steps:
        """What constructions and calls do."""
        return Steps(self.catalogue, self.families, self.branches, self.scope)

    @cached_property
    def constructed(self) -> list[Constructed]:
        """Every construction point, with the lets that all its branches use."""
        points = self.branches.constructions.points
        shared: list[set[str] | None] = [None] * len(points)
        for origin, usage in zip(self.branches.origins, self.usages, strict=True):
            lets = shared[origin]
            shared[origin] = set(usage.lets) if lets is None else lets & set(usage.lets)
        return [
            self.steps.construction(point, lets or set())
            for point, lets in zip(points, shared, strict=True)
        ]

    @cached_property
    def calls(self) -> list[Called]:
        """Every accepted branch."""
        return [
            self.steps.call(point, self.constructed[origin], usage)
            for point, origin, usage in zip(
                self.branches.accepted.points, self.branches.origins, self.usages, strict=True
            )
        ]
