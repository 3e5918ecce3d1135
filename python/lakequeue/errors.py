"""What may be shown to a person: a message in plain words and a hint what to do about it."""

from __future__ import annotations

from typing import ClassVar


class Problem(Exception):
    """Base of all errors that the command line shows as one line plus a hint."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class WrongUse(Problem):
    """Options or settings that cannot be meant: exit code 2."""

    exit_code = 2
