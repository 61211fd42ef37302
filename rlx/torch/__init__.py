"""PyTorch's programs, from its own tracers.

`torch.compile(model, backend="rlx")` compiles what Dynamo traces; `from_torch` makes a function of
arrays of what `torch.export` traces.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rlx.ir.graph import Graph
from rlx.limits import LoadLimits
from rlx.public_names import names_of as _names_of


def from_torch(
    program: Any,
    example_inputs: Any = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> Any:
    """Return a PyTorch module, or an exported program, as a function `f(params, *inputs)`.

    A module is traced by `torch.export` at `example_inputs`, a tuple of tensors, in the mode that
    it is in (`model.eval()` for inference). `dynamic_shapes` are those of `torch.export`; an
    `rlx.Dim` with a bound may be used as its `Dim`. `f.params` and `f.buffers` are the module's
    arrays by name, `f.graph()` is a graph for `rlx.compile` and `rlx.aot`. Operators without a
    rule raise NoRuleError with the line of the program.
    """
    from rlx.torch import exported

    return exported.from_torch(
        program, example_inputs, example_kwargs=example_kwargs, dynamic_shapes=dynamic_shapes
    )


def load(
    path: str | os.PathLike[str],
    *,
    dims: Mapping[str, Any] | None = None,
    limits: LoadLimits | None = None,
) -> Graph:
    """Return the graph of a file that `torch.export.save` wrote, with its params' values.

    `dims` gives extents to dynamic dimensions, by their names, or shapes to inputs, by theirs.
    A file that takes more than `limits` raises LimitError.
    """
    from rlx.torch import exported

    return exported.load(path, dims=dims, limits=limits)


__dir__ = _names_of(__name__)
