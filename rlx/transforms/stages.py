"""The stages between a jitted function and its run: `f.trace(x)`, `.lower()`, `.compile()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlx.dataclass import dataclass
from rlx.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Traced:
    """A call that was traced."""

    graph: Graph
    _compile: Callable[[], Compiled]

    def lower(self) -> Lowered:
        """Return the call as it will be compiled."""
        return Lowered(self.graph, self._compile)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A call before it is compiled."""

    graph: Graph
    _compile: Callable[[], Compiled]

    def as_text(self) -> str:
        """Return the graph in its text form."""
        return str(self.graph)

    def compile(self) -> Compiled:
        """Return the call compiled."""
        return self._compile()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A call that is compiled: runs on arguments of its types, and refuses others."""

    executable: Any
    _run: Callable[..., Any]

    def as_text(self) -> str:
        """Return the generated C."""
        text: str = self.executable.c_source
        return text

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)
