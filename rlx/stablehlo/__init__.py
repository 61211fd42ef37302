"""Programs of StableHLO, as `jax.export` and PyTorch/XLA write them. Needs jaxlib, to parse them.

`from_stablehlo` makes a function of arrays of a module.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from rlx.errors import ToolchainError
from rlx.ir.graph import Graph
from rlx.ir.source_lines import calling_source
from rlx.limits import LoadLimits


def from_stablehlo(
    source: str | bytes | os.PathLike[str], *, limits: LoadLimits | None = None
) -> Any:
    """Return a program of StableHLO as a function of arrays, for `jit`, `grad`, `vmap`, `aot`.

    `source` is text, bytecode (`exported.mlir_module_serialized`), an export of JAX
    (`exported.serialize()`), or the path of a file with one of these. The function takes and
    returns the arrays of the module's `main`; one of an export takes and returns the trees that
    the exported function does. Symbolic extents are those of the arguments (`rlx.Dim`).

    A damaged program is a FormatError, one that takes more than `limits` a LimitError, and an
    operation without a rule a NoRuleError that names it and its line; without jaxlib a
    ToolchainError says how to install it.
    """
    require_jaxlib("from_stablehlo")
    from rlx.stablehlo import function

    return function.made(source, limits)


def load(
    path: str | os.PathLike[str],
    *,
    dims: Mapping[str, Any] | None = None,
    limits: LoadLimits | None = None,
) -> Graph:
    """Return the graph of a file of StableHLO: text, bytecode, or an export of JAX.

    `dims` has the shapes of inputs with symbolic extents, by the names of these. A file that
    takes more than `limits` raises LimitError.
    """
    require_jaxlib(f"loading {os.fspath(path)}")
    from rlx.stablehlo import function

    return function.load(path, dims, limits)


def require_jaxlib(what: str) -> None:
    """Raise ToolchainError where jaxlib is not installed."""
    if importlib.util.find_spec("jaxlib") is None:
        raise ToolchainError(
            f"{what} needs jaxlib, which is not installed",
            source=calling_source(),
            remedy="pip install 'rlx[jax]'",
        )
