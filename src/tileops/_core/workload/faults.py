"""What is wrong with a workload row, as data."""

from __future__ import annotations


class RowFault(ValueError):
    """A row, or one case of it, that breaks a rule.

    Args:
        check: number of the validator's check.
        path: field path of the row or of the part at fault.
        message: what is wrong.
    """

    def __init__(self, check: int, path: str, message: str) -> None:
        self.check = check
        self.path = path
        self.message = message
        super().__init__(check, path, message)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"
