"""Bounds-checked reading of numbers and strings from the head of a file."""

from __future__ import annotations

import struct
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.errors import FormatError
from rlx.limits import Budget, current_budget


@dataclass(slots=True)
class Cursor:
    """A place in a file's bytes. Errors name the file and what was being read."""

    path: str
    data: NDArray[np.uint8]
    budget: Budget = field(default_factory=current_budget)
    order: str = "<"
    at: int = 0
    wide: bool = True
    """True if counts and lengths have 64 bits: from version 2 on."""

    def error(self, what: str, problem: str) -> FormatError:
        return FormatError(
            f"{self.path}: {what}: {problem}",
            remedy="the file is damaged or incomplete: get it again",
        )

    @property
    def left(self) -> int:
        """Bytes from here to the end."""
        return len(self.data) - self.at

    def numbers(self, count: int, dtype: str, what: str) -> NDArray[Any]:
        """Read `count` numbers, without copying them."""
        kind = np.dtype(self.order + dtype)
        size = count * kind.itemsize
        if size > self.left:
            raise self.error(
                what, f"{size} bytes are needed at byte {self.at}, the file has {self.left} more"
            )
        result = np.frombuffer(self.data, kind, count, self.at)
        self.at += size
        return result

    def number(self, dtype: str, what: str) -> Any:
        """Read one number as Python's."""
        return self.numbers(1, dtype, what)[0].item()

    def count(self, what: str, least: int) -> int:
        """Read how many things follow; each takes `least` bytes or more."""
        count = int(self.number("u8" if self.wide else "u4", what))
        if count * least > self.left:
            raise self.error(
                what, f"{count} entries are claimed, {self.left} bytes are left for them"
            )
        return count

    def text(self, what: str) -> str:
        """Read a string: its length, then UTF-8."""
        (text,) = self.texts(1, what)
        return text

    def texts(self, count: int, what: str) -> list[str]:
        """Read strings that follow each other.

        A vocabulary has a hundred thousand of them: this loop is what opening a file takes.
        """
        self.budget.check_elements(count, what)
        length_at = struct.Struct(self.order + ("Q" if self.wide else "I"))
        data, end, prefix = self.data.data, len(self.data), length_at.size
        found = []
        for _ in range(count):
            start = self.at + prefix
            length = length_at.unpack_from(data, self.at)[0] if start <= end else end
            if start + length > end:
                self.count(f"{what}: length of a string", 1)  # raises: it says what is missing
            try:
                found.append(str(data[start : start + length], "utf-8"))
            except UnicodeDecodeError as error:
                raise self.error(what, f"a string is not UTF-8: {error}") from None
            self.at = start + length
        self.budget.check_time()
        return found
