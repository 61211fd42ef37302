"""`Tracer`: the array that a traced function sees. It behaves like a NumPy array.

Its operators and methods are functions of `rlx.numpy`, which attaches them
(`rlx.numpy.methods`). What needs the numbers themselves (`if`, `float`, `np.asarray`) is an
error that says what to use instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rlx.errors import MutationError
from rlx.ir.shape import Shape, product
from rlx.ir.source_lines import calling_source
from rlx.tracing.errors import ConcretizationError, TraceError
from rlx.tracing.trace import TracedArray


class Tracer(TracedArray):
    """An array whose numbers are known only when the compiled function runs."""

    __slots__ = ()

    if TYPE_CHECKING:  # methods that rlx.numpy attaches

        def __getattr__(self, name: str) -> Any: ...

    @property
    def shape(self) -> Shape:
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype.numpy

    @property
    def ndim(self) -> int:
        return self.value.rank

    @property
    def size(self) -> Any:
        return product(self.value.shape)

    def __repr__(self) -> str:
        weak = ", weak" if self.weak else ""
        return f"Tracer<{self.value.type}{weak}>"

    def __len__(self) -> Any:
        self._require_axis("len()")
        return self.shape[0]

    def _require_axis(self, use: str) -> None:
        if not self.shape:
            raise TraceError(
                f"{use} of an array without axes, of type {self.value.type}",
                source=calling_source(),
                remedy="use the array itself, or give it an axis with rlx.numpy.atleast_1d(x)",
            )

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        del index, value
        raise MutationError(
            "a traced array cannot be changed in place",
            source=calling_source(),
            remedy="use x = x.at[index].set(value)",
        )

    # What needs numbers

    def _refuse(self, use: str, remedy: str) -> NoReturn:
        made = self.value.node.source
        origin = "" if made is None else f" (made at {made})"
        raise ConcretizationError(
            f"{use} needs the numbers of a traced array of type {self.value.type}{origin}, "
            "which are not known while the function is traced",
            source=calling_source(),
            remedy=remedy,
        )

    def __bool__(self) -> NoReturn:
        self._refuse(
            "a Python condition (if, while, and, or, not)",
            "use rlx.numpy.where for a choice, or make the value a static argument",
        )

    def __float__(self) -> NoReturn:
        self._refuse("float()", "use x.astype('f64') to convert, or convert the function's result")

    def __int__(self) -> NoReturn:
        self._refuse("int()", "use x.astype('i64') to convert, or make it a static argument")

    def __complex__(self) -> NoReturn:
        self._refuse("complex()", "use x.astype('c64') to convert")

    def __index__(self) -> NoReturn:
        self._refuse("a Python index, range or shape", "make the value a static argument")

    def item(self) -> NoReturn:
        self._refuse("item()", "convert the function's result instead")

    def tolist(self) -> NoReturn:
        self._refuse("tolist()", "convert the function's result instead")

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        del dtype, copy
        self._refuse("a NumPy function", "use the function of that name in rlx.numpy")

    __hash__ = None  # `==` gives an array, as in NumPy
