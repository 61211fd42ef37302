"""Sparse derivatives: patterns by propagation over the graph, colouring, compressed matrices.

`rlx.jacobian_sparsity` and `rlx.hessian_sparsity` return a `Pattern`, `rlx.sparse_jacobian` and
`rlx.sparse_hessian` a `SparseMatrix`.
"""

from rlx.public_names import names_of
from rlx.sparse.factors import Factors as Factors
from rlx.sparse.matrix import SparseMatrix as SparseMatrix
from rlx.sparse.pattern import Pattern as Pattern

__dir__ = names_of(__name__)
