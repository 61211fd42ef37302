"""Modules of StableHLO as MLIR's own bindings parse them: text, bytecode, exports of JAX."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, sdy, stablehlo

from rlx.errors import FormatError, ToolchainError
from rlx.limits import Budget

_BYTECODE = b"ML\xefR"
_PER_LEVEL = 32
"""Brackets that one level of nesting of a program may take in text."""


@dataclass(frozen=True, slots=True)
class Trees:
    """The containers of the arguments and results of an exported function."""

    arguments: Any
    results: Any
    kept: tuple[int, ...]
    """The leaves of the arguments that `main` takes."""


@dataclass(frozen=True, slots=True)
class ParsedModule:
    """A parsed module."""

    name: str
    module: Any
    functions: dict[str, Any]
    """Functions by their symbols."""
    main: Any
    trees: Trees | None = None


def parse(content: bytes | str, name: str, budget: Budget) -> ParsedModule:
    """Return the program that `content` holds."""
    data = content.encode() if isinstance(content, str) else content
    budget.charge_bytes(len(data))
    if data.startswith(_BYTECODE):
        return _program(_deserialized(data, name), name)
    text = _as_text(data)
    if text is None:
        return _exported(data, name)
    _check_nesting(data, budget)
    context = _context()
    try:
        module = ir.Module.parse(text, context)
    except (ir.MLIRError, ValueError) as error:
        raise FormatError(
            f"{name}: no module of StableHLO: {_first_lines(error)}",
            remedy="write the module again, or install the version of jaxlib that wrote it",
        ) from error
    return _program(module, name)


def _as_text(data: bytes) -> str | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _check_nesting(data: bytes, budget: Budget) -> None:
    """Raise LimitError for text that nests so deep that parsers run out of stack."""
    codes = np.frombuffer(data, np.uint8)
    opens = np.isin(codes, np.frombuffer(b"{([<", np.uint8))
    closes = np.isin(codes, np.frombuffer(b"})]>", np.uint8))
    closes[1:] &= codes[:-1] != ord("-")  # an arrow
    depth = int(np.cumsum(opens.astype(np.int64) - closes).max(initial=0))
    if depth > _PER_LEVEL * budget.limits.nesting:
        raise budget.exceeded("nesting", -(-depth // _PER_LEVEL))


def _context() -> Any:
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)  # that of functions, among others
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    context.allow_unregistered_dialects = True
    context.attach_diagnostic_handler(lambda _: True)  # errors say it; nothing is printed
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    return context


def _deserialized(data: bytes, name: str) -> Any:
    context = _context()
    try:
        return stablehlo.deserialize_portable_artifact(context, data)
    except (ir.MLIRError, ValueError) as error:
        try:
            return ir.Module.parse(data, context)  # bytecode of a version, not of all
        except (ir.MLIRError, ValueError):
            raise FormatError(
                f"{name}: bytecode that this version of jaxlib does not read: "
                f"{_first_lines(error)}",
                remedy="write it again, or install a newer jaxlib",
            ) from error


def _exported(data: bytes, name: str) -> ParsedModule:
    """Return the program of what `jax.export.Exported.serialize` wrote."""
    try:
        export = importlib.import_module("jax.export")
        exported = export.deserialize(bytearray(data))
    except ImportError as error:
        raise ToolchainError(
            f"{name}: neither text nor bytecode, and an export is read by JAX: "
            f"{_first_lines(error)}",
            remedy="pip install 'rlx[jax]' flatbuffers, or write exported.mlir_module()",
        ) from error
    except Exception as error:  # whatever its reader raises for damaged data
        raise FormatError(
            f"{name}: neither text, nor bytecode, nor an export of JAX: {_first_lines(error)}",
            remedy="write exported.mlir_module(), or exported.serialize(), which needs the "
            "package flatbuffers",
        ) from error
    trees = Trees(exported.in_tree, exported.out_tree, tuple(exported.module_kept_var_idx))
    return _program(_deserialized(exported.mlir_module_serialized, name), name, trees)


def _program(module: Any, name: str, trees: Trees | None = None) -> ParsedModule:
    functions = {
        ir.StringAttr(op.attributes["sym_name"]).value: op
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    main = functions.get("main")
    if main is None and len(functions) == 1:
        (main,) = functions.values()
    if main is None:
        raise FormatError(
            f"{name}: the module has no function main, but "
            f"{', '.join(sorted(functions)) or 'none'}",
            remedy="name the function that is to be called main",
        )
    return ParsedModule(name, module, functions, main, trees)


def _first_lines(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
