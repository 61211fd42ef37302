"""The kernel of eigenvalues and eigenvectors of general complex matrices, one slice at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from rlx.codegen.kernels.access import GroupedWriter, Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import moved
from rlx.codegen.kernels.linalg.eigenproblem import Eigenproblem, SolvePair
from rlx.codegen.kernels.linalg.rows import matrices_of, vectors_of
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.values import Complex
from rlx.codegen.loops.expr import E, select
from rlx.dataclass import dataclass
from rlx.ir.shape import product
from rlx.ir.types import TensorType


def eig_sizes(a: TensorType) -> tuple[int, int]:
    """Return the extent of the matrices, and how many numbers of scratch each one takes."""
    (n, _) = a.with_shape(a.shape[-2:]).static_shape
    return n, 4 * n * n + 5 * n


@scratch("eig")
def eig_scratch(a: TensorType, **_: object) -> int:
    numbers = a.with_shape((product(a.shape[:-2]), eig_sizes(a)[1]))
    return numbers.with_dtype(a.dtype.part).bytes


@kernel("eig")
def eig(scope: Scope, a: Reader, w: Writer, v: Writer) -> None:
    """QR iteration to a triangular matrix, whose diagonal is the eigenvalues."""
    values, vectors = vectors_of(w), matrices_of(v)
    with triangles(scope, a, balanced=True) as found:
        slice_, number = found.problem, found.number
        norm = slice_.norm()
        results = EigenResults(
            values.at(number), vectors.at(number), found.scale, found.poison, found.is_real
        )
        with slice_.k.loop("c", slice_.n) as c:
            value = slice_.matrix.entry("value", c, c)
            slice_.substitute(c, value, norm)
            slice_.turn_back(c)
            results.write(slice_, c, value)


@dataclass(frozen=True, slots=True)
class Triangle:
    """A slice in triangular form, its scale, and NaN if the slice is invalid, else 0."""

    problem: Eigenproblem
    number: E
    scale: E
    poison: E
    is_real: E


@contextmanager
def triangles(
    scope: Scope,
    a: Reader,
    *,
    balanced: bool,
    solve_pair: SolvePair = Eigenproblem.solve_pair,
) -> Iterator[Triangle]:
    """Loop over the slices, each of which is reduced to triangular form."""
    k = scope.k
    n, each = eig_sizes(a.type)
    source = matrices_of(a)
    with rows(k, "slice", scope.extents(product(a.shape[:-2])), a.type.elements * 64) as number:
        problem = Eigenproblem.at(k, scope.scratch_memory, number * each, n)
        scale, rest, is_real = problem.read(source.at(number))
        problem.axes.fill_identity()
        if balanced:
            problem.balance()
        problem.reduce()
        done = problem.iterate(solve_pair)
        poison = k.let("poison", select(done, rest, problem.matrix.number(math.nan)))
        yield Triangle(problem, number, scale, poison, is_real)


@dataclass(frozen=True, slots=True)
class EigenResults:
    """Destinations of a slice's values and vectors, their scale, and NaN for an invalid slice."""

    values: GroupedWriter
    vectors: GroupedWriter
    scale: E
    poison: E
    is_real: E

    def write(self, slice_: Eigenproblem, c: E, value: Complex) -> None:
        """Write value c, an entry of the diagonal, in its place, and its vector."""
        k, poison = slice_.k, self.poison
        place = k.let("place", select(poison.eq(poison), slice_.place(value, c), c))
        self.values.write(place, value=moved(value * self.scale, poison))
        length = slice_.turn_positive(self.is_real & value.im.eq(0.0))
        with k.loop("i", slice_.n) as i:
            self.vectors.write(i, place, value=moved(slice_.vector.load(0, i) / length, poison))
