"""Where specs come from, as far as reading them depends on it."""

from __future__ import annotations

from tileops._core.lang.declared import dataclass


@dataclass(frozen=True)
class Source:
    """A file or a mapping that holds specs.

    Args:
        label: file as shown to users (`norm/spec.yaml`), or the origin of a mapping.
        package: package whose classes and functions the source may name; None for any.
        in_tree: whether the source ships with this package.
        folder_family: the family of the folder that holds an in-tree file.
        home: package whose `ops` and `reference` modules belong to the specs, where it is known.
        allowed: packages that may be named besides `package`.
    """

    label: str
    package: str | None
    in_tree: bool = False
    folder_family: str | None = None
    home: str | None = None
    allowed: frozenset[str] = frozenset()

    def may_name(self, path: str) -> bool:
        """Whether the source may name a class or function at this dotted path."""
        if self.package is None:
            return True
        return any(path.startswith(f"{name}.") for name in (self.package, *self.allowed))

    def refuse(self, path: str) -> str:
        """Why it may not."""
        return (
            f"{path!r} lies outside package {self.package!r}; "
            "tileops.manifest.allow(package) admits more"
        )

    def clash(self, name: str) -> str:
        """Why nobody else may define a name that the source defines."""
        return f"{name} is already defined in {self.label}"
