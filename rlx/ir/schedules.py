"""Schedules by contraction: given by hand, measured by `rlx tune`, kept in files.

    matmul(f32[128, 768], param f32[768, 768]) = schedule(rows = 12, columns = 32, lanes = 16)

A contraction is named as `rlx inspect --why` prints it, or by the name of its node. `param` says of
an operand that it depends on params and constants only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rlx.dataclass import dataclass
from rlx.errors import FormatError
from rlx.ir.lowering import Schedule
from rlx.ir.parser import parse_lowering
from rlx.ir.printer import format_lowering


@dataclass(frozen=True, slots=True)
class Schedules(Mapping[str, Schedule]):
    """Schedules by the contraction that they are for; `str` is what a file of them holds."""

    entries: tuple[tuple[str, Schedule], ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Schedule | str]) -> Schedules:
        """Return the schedules of a mapping, each a record or its text."""
        read = (
            (name, schedule if isinstance(schedule, Schedule) else parse_schedule(schedule))
            for name, schedule in given.items()
        )
        return cls(tuple(sorted(read, key=lambda entry: entry[0])))

    @classmethod
    def parse(cls, text: str) -> Schedules:
        """Return the schedules that `text` lists, one a line; lines of `#` are comments."""
        found: dict[str, Schedule] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, equals, record = line.partition(" = schedule(")
            if not equals:
                raise FormatError(
                    f"line {number} is not a schedule: {line.strip()[:80]!r}",
                    remedy="write `contraction = schedule(rows = ..., ...)`, one a line",
                )
            found[name.strip()] = parse_schedule(f"schedule({record}")
        return cls.of(found)

    @classmethod
    def load(cls, path: str | Path) -> Schedules:
        """Read a file that `save` wrote."""
        return cls.parse(Path(path).read_text(encoding="utf-8"))

    def save(self, path: str | Path) -> None:
        """Write all of them to a file, as text."""
        Path(path).write_text(str(self), encoding="utf-8")

    def __getitem__(self, name: str) -> Schedule:
        for known, schedule in self.entries:
            if known == name:
                return schedule
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        lines = (f"{name} = {format_lowering(schedule)}\n" for name, schedule in self.entries)
        return "".join(lines)


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that `text` spells: `schedule(rows = 12, columns = 32, ...)`."""
    found = parse_lowering(text)
    if not isinstance(found, Schedule):
        raise FormatError(
            f"{text[:80]!r} is not a schedule",
            remedy="write schedule(rows = ..., columns = ..., ...)",
        )
    return found
