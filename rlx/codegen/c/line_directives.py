"""`#line` directives on request: a debugger then steps through the user's program.

    text = with_line_directives(emit_module(module), module.name, sources)

Every line of a kernel becomes the user's line that the kernel computes, every call in an entry
that of its node; the rest stays what it is, a line of the generated file. The directives are
added to finished text: nothing else needs to know of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlx.codegen.loops.nodes import Kernel
from rlx.codegen.schedule import Schedule, Thunk, number_of
from rlx.errors import Source

_DEFINITION = re.compile(r"(?:static )?(?:void|int) (\w+)\(")
_CALL_COMMENT = re.compile(r"  // %(\d+) ")


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
        for thunk in schedule.thunks:
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
    for line, source in _attributed(text, sources):
        if source is not None:
            lines.append(f"#line {source.line} {json.dumps(source.file)}")
        elif shown is not None:
            lines.append(f'#line {len(lines) + 2} "{name}.c"')
        shown = source
        lines.append(line)
    return "\n".join(lines) + "\n"


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
