"""Writers of the text of an LLVM function and module, independent of the loop language.

IR is written as text, not built as a tree of `llvmlite.ir` objects: LLVM reads text in the end,
the tree costs more time than parsing does, and plain strings need no untyped library.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from rlx.codegen.text import llvm_name

_FIRST = "entry.block"
"""Labels have a dot: they share one namespace with arguments, whose names have none."""


class ModuleWriter:
    """Definitions, declarations and metadata of one module, in order of first use."""

    def __init__(
        self, symbols: Mapping[str, str], features: str = "", slots: Collection[str] = ()
    ) -> None:
        self.symbols = symbols
        """What the linker calls external functions, where it differs."""
        self.slots = slots
        """Names of functions whose addresses are read at every call."""
        self.features = features
        """What the machine has, in LLVM's spelling: some intrinsics need it."""
        self.needs_vectorizer = False
        """True if a `simd` loop was left scalar."""
        self._definitions: dict[str, str] = {}
        self._kernels: dict[str, str] = {}
        """Declarations of the kernels that are called."""
        self._declarations: dict[str, str] = {}
        self._metadata: list[str] = []
        self._shared: dict[str, str] = {}

    def define(self, name: str, emit: Callable[[], str]) -> None:
        """Add the definition of `@name` unless it is there."""
        if name not in self._definitions:
            self._definitions[name] = ""  # keeps the place of callers before callees
            self._definitions[name] = emit()

    def declare(self, name: str, result: str, params: str) -> None:
        """Declare an external function or intrinsic once; the first signature holds."""
        self._declarations.setdefault(name, f"declare {result} @{llvm_name(name)}({params})")

    def declare_kernel(self, name: str, result: str, args: Collection[str]) -> None:
        """Declare a kernel that is called with typed `args`, unless this module defines it."""
        if name not in self._kernels:
            types = ", ".join(arg.rpartition(" ")[0] for arg in args)
            self._kernels[name] = f"declare hidden {result} @{llvm_name(name)}({types})"

    def declare_slot(self, name: str) -> None:
        """Declare an external variable that holds the address of a function."""
        self._declarations.setdefault(name, f"@{llvm_name(name)} = external global ptr")

    @property
    def externals(self) -> tuple[str, ...]:
        """Symbols declared that are not intrinsics of LLVM."""
        return tuple(name for name in self._declarations if not name.startswith("llvm."))

    def distinct(self, content: str = "") -> str:
        """Add a metadata node with an identity; `{self}` in `content` is its own name."""
        name = f"!{len(self._metadata)}"
        self._metadata.append(f"{name} = distinct !{{{content.format(self=name)}}}")
        return name

    def metadata(self, content: str) -> str:
        """Return the name of the metadata node `!{content}`, shared between users."""
        if content not in self._shared:
            self._shared[content] = f"!{len(self._metadata)}"
            self._metadata.append(f"{self._shared[content]} = !{{{content}}}")
        return self._shared[content]

    def text(self, header: str, footer: str) -> str:
        """Return the whole module."""
        linked = [text for name, text in self._kernels.items() if name not in self._definitions]
        declared = "\n".join([*linked, *self._declarations.values()])
        parts = [header, *self._definitions.values(), declared]
        parts.append("\n".join([footer, *self._metadata]))
        return "\n\n".join(part for part in parts if part) + "\n"


class FunctionWriter:
    """The body of one function: numbered values, labelled blocks, allocas in the first block."""

    def __init__(self, module: ModuleWriter) -> None:
        self.module = module
        self.label = _FIRST
        """The block that is being written: what a phi names as its predecessor."""
        self._allocas: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._names: dict[str, int] = {}

    def value(self, instruction: str) -> str:
        """Write an instruction and return the operand that holds its result."""
        name = f"%{self._count}"
        self._count += 1
        self._lines.append(f"  {name} = {instruction}")
        return name

    def write(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self._lines.append(f"  {instruction}")

    def start(self, label: str) -> None:
        """Begin the block `label`; the block before it must have ended."""
        self._lines.append(f"{label}:")
        self.label = label

    def branch(self, label: str) -> None:
        self.write(f"br label %{label}")

    def branch_if(self, condition: str, then: str, orelse: str, metadata: str = "") -> None:
        self.write(f"br i1 {condition}, label %{then}, label %{orelse}{metadata}")

    def alloca(self, name: str, type: str, alignment: int | None = None) -> str:
        """Reserve stack memory for the whole call, wherever the function is now."""
        pointer = f"%{self.unique(f'{name}.slot')}"
        aligned = "" if alignment is None else f", align {alignment}"
        self._allocas.append(f"  {pointer} = alloca {type}{aligned}")
        return pointer

    def intrinsic(self, name: str, suffix: str, result: str, args: list[tuple[str, str]]) -> str:
        """Call `llvm.<name>.<suffix>` with (type, operand) pairs."""
        full = f"llvm.{name}.{suffix}"
        self.module.declare(full, result, ", ".join(type for type, _ in args))
        operands = ", ".join(f"{type} {operand}" for type, operand in args)
        return self.value(f"call {result} @{full}({operands})")

    def unique(self, name: str) -> str:
        """Return `name`, or `name.2`, `name.3`, ... if this function has it already."""
        llvm_name(name)
        count = self._names.get(name, 0) + 1
        self._names[name] = count
        return name if count == 1 else f"{name}.{count}"

    def text(self, signature: str) -> str:
        """Return the definition with `signature` as its first line."""
        return "\n".join([f"{signature} {{", f"{_FIRST}:", *self._allocas, *self._lines, "}"])
