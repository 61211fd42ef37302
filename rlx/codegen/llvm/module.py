"""Object code in this process, with the texts it was made from on demand.

Nothing here needs LLVM unless its own linker must be asked, or a text is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from rlx.codegen.llvm.linker import link
from rlx.codegen.llvm.loader import MAPS_CODE, LoadedCode, process_symbol
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.optimize import Options
from rlx.codegen.machine_code import MachineCode
from rlx.dataclass import dataclass
from rlx.errors import ToolchainError

if TYPE_CHECKING:
    from rlx.codegen.llvm.emit import EmittedModule

Resolve: TypeAlias = Callable[[str], int | None]
Source: TypeAlias = "Callable[[], tuple[EmittedModule, Machine]]"


class Loaded(Protocol):
    """Code in executable memory, which stays as long as this object."""

    def address(self, name: str) -> int: ...


@dataclass(frozen=True, slots=True)
class LlvmModule:
    """Loaded machine code. The code lives as long as this object does."""

    code: MachineCode
    _loaded: Loaded = field(repr=False)
    _source: Source = field(repr=False)
    _options: Options

    def address(self, name: str) -> int:
        """Return the address of the entry point called `name`."""
        if name not in self.code.entries:
            known = ", ".join(self.code.entries)
            raise ToolchainError(
                f"the module has no entry {name!r}; its entries are: {known}",
                remedy="name one of its entries",
            )
        return self._loaded.address(name)

    @property
    def text(self) -> str:
        """The IR that the code was made from."""
        return self._source()[0].text

    @property
    def optimized_text(self) -> str:
        """The IR after LLVM's optimizer; computed on demand, for reading."""
        from rlx.codegen.llvm import binding

        return binding.optimize_text(self.text, *self._settings())

    @property
    def assembly(self) -> str:
        """The machine's assembly; computed on demand, for reading."""
        from rlx.codegen.llvm import binding

        return binding.compile_assembly(self.text, *self._settings())

    def _settings(self) -> tuple[Machine, Options]:
        emitted, machine = self._source()
        options = self._options.resolved(
            len(emitted.text), needs_vectorizer=emitted.needs_vectorizer
        )
        return machine, options


def load_objects(objects: Sequence[bytes], code: MachineCode, resolve: Resolve) -> Loaded:
    """Load objects that call each other.

    LLVM links what our own linker does not support, or cannot load here.
    """
    linked = link(objects) if MAPS_CODE else None
    if linked is not None:
        return LoadedCode(linked, {name: _address(name, resolve) for name in linked.imports})
    from rlx.codegen.llvm.binding import LoadedObject

    symbols = {name: _address(name, resolve) for name, _ in code.externals}
    return LoadedObject(objects, code.entries, symbols)


def _address(symbol: str, resolve: Resolve) -> int:
    address = resolve(symbol) or process_symbol(symbol)
    if address is None:
        raise ToolchainError(
            f"the module calls {symbol}, which neither the process nor the given libraries have",
            remedy="give the library that defines it",
        )
    return address
