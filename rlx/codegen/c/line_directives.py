"""`#line` directives on request: a debugger then steps through the user's program.

    text = with_line_directives(emit_module(module), module.name, sources)

Every statement of a kernel becomes the user's line that the kernel computes, every call in an
entry that of its node; the rest stays what it is, a line of the generated file. A statement has
one directive, and one line: compilers count on after a directive. The directives are added to
finished text: nothing else needs to know of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlx.codegen.loops.nodes import Kernel
from rlx.codegen.schedule import AnyThunk, BranchThunk, LoopThunk, Schedule, Thunk, number_of
from rlx.dataclass import dataclass
from rlx.errors import Source

_DEFINITION = re.compile(r"(?:static )?(?:__attribute__\(\(noinline\)\) )?(?:void|int) (\w+)\(")
_CALL_COMMENT = re.compile(r" +// %(\d+) ")
_COMPLETE = (";", "{", "}")
_WITHOUT_CODE = re.compile(r" +}$| *//| *#|$")
"""Lines that no instruction belongs to."""


@dataclass(frozen=True, slots=True)
class LineSources:
    """The user's line of each kernel, by name, and of each call in an entry, by node number."""

    kernels: Mapping[str, Source]
    calls: Mapping[int, Source]

    @staticmethod
    def of(schedule: Schedule, kernels: Mapping[tuple[Any, ...], Kernel]) -> LineSources:
        """Collect the lines of a schedule; a kernel of several nodes shows the first one's."""
        by_kernel: dict[str, Source] = {}
        by_call: dict[int, Source] = {}
        for thunk in _every_thunk(schedule.thunks):
            source = thunk.node.source
            if source is not None:
                by_call[number_of(thunk)] = source
                if isinstance(thunk, Thunk):
                    by_kernel.setdefault(kernels[thunk.kernel_key].name, source)
        return LineSources(by_kernel, by_call)


def with_line_directives(text: str, name: str, sources: LineSources) -> str:
    """Return the C source `text`, the file `<name>.c`, with directives to the user's lines."""
    lines: list[str] = []
    shown: Source | None = None
    for line, source in _statements(_attributed(text, sources)):
        if source is not None and not _WITHOUT_CODE.match(line):
            lines.append(f"#line {source.line} {json.dumps(source.file)}")
        elif source is None and shown is not None:
            lines.append(f'#line {len(lines) + 2} "{name}.c"')
        shown = source
        lines.append(line)
    return "\n".join(lines) + "\n"


def _statements(
    lines: Iterator[tuple[str, Source | None]],
) -> Iterator[tuple[str, Source | None]]:
    """Yield the lines that belong to the user's, those of one statement as one."""
    begun = ""
    for line, source in lines:
        whole = f"{begun} {line.strip()}" if begun else line
        is_open = source is not None and not whole.endswith(_COMPLETE)
        begun = whole if is_open and not _WITHOUT_CODE.match(whole) else ""
        if not begun:
            yield whole, source
    assert not begun, "the text ends with a statement"


def _every_thunk(thunks: Sequence[AnyThunk]) -> Iterator[AnyThunk]:
    """Yield all thunks, those of loops and branches after the one that holds them."""
    for thunk in thunks:
        yield thunk
        match thunk:
            case LoopThunk():
                yield from _every_thunk((*thunk.condition, *thunk.body))
            case BranchThunk():
                yield from _every_thunk([each for branch in thunk.branches for each in branch])
            case Thunk():
                pass


def _attributed(text: str, sources: LineSources) -> Iterator[tuple[str, Source | None]]:
    """Yield each line with the user's line that it belongs to."""
    current: Source | None = None
    for line in text.splitlines():
        definition, call = _DEFINITION.match(line), _CALL_COMMENT.match(line)
        if definition and not line.endswith(";"):
            current = sources.kernels.get(definition[1])
        elif call:
            current = sources.calls.get(int(call[1]))
        yield line, current
        if line == "}":
            current = None
