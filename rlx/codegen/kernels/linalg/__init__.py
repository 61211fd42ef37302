"""Linear systems, factorizations and eigenvalues."""

from rlx.codegen.kernels.linalg import decompositions as decompositions
from rlx.codegen.kernels.linalg import decompositions_lapack as decompositions_lapack
from rlx.codegen.kernels.linalg import eigenvalues as eigenvalues
from rlx.codegen.kernels.linalg import eigenvalues_lapack as eigenvalues_lapack
from rlx.codegen.kernels.linalg import factorization as factorization
from rlx.codegen.kernels.linalg import factorization_lapack as factorization_lapack
from rlx.codegen.kernels.linalg import schur as schur
from rlx.codegen.kernels.linalg import solve as solve
from rlx.codegen.kernels.linalg import solve_lapack as solve_lapack
