"""All workloads, by family."""

from bench.routine import Routine
from bench.workload import Workload
from bench.workloads.convolutions import CONVOLUTIONS
from bench.workloads.data import DATA
from bench.workloads.loops import LOOPS
from bench.workloads.loops_physics import PHYSICS
from bench.workloads.loops_sampling import SAMPLING
from bench.workloads.loops_systems import SYSTEM_ROWS
from bench.workloads.networks import NETWORKS
from bench.workloads.normalization import NORMALIZATION
from bench.workloads.products import PRODUCTS
from bench.workloads.recurrent import RECURRENT
from bench.workloads.small import SMALL
from bench.workloads.stencils import STENCILS
from bench.workloads.vision import VISION

WORKLOADS: tuple[Workload, ...] = (
    *SMALL,
    *NETWORKS,
    *DATA,
    *PRODUCTS,
    *CONVOLUTIONS,
    *NORMALIZATION,
    *VISION,
    *RECURRENT,
)
"""Graphs, in the order of the report."""

PROGRAMS: tuple[Routine, ...] = (*LOOPS, *PHYSICS, *SYSTEM_ROWS, *SAMPLING, *STENCILS)
"""Functions, which have a bound in C next to them."""
