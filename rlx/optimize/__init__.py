"""Optimization as traced functions: quadratic programs, sequential quadratic programming, iLQR.

Iterations are loops of the program, at most `max_iterations` of them; a status says how they
ended. The solvers work under `rlx.jit`, `rlx.vmap` and derivatives, and are exported by `rlx.aot`.
"""

from rlx.optimize.ilqr import ILQRSolution as ILQRSolution
from rlx.optimize.ilqr import ilqr as ilqr
from rlx.optimize.qp import QPSolution as QPSolution
from rlx.optimize.qp import solve_qp as solve_qp
from rlx.optimize.sqp import SQPSolution as SQPSolution
from rlx.optimize.sqp import sqp as sqp
from rlx.optimize.status import Status as Status
from rlx.public_names import names_of

__dir__ = names_of(__name__)
