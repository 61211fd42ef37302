"""Gaussian splatting: lists of tiles, pixels, and the backward sweep."""

from rlx.codegen.kernels.splat import backward as backward
from rlx.codegen.kernels.splat import gradient as gradient
from rlx.codegen.kernels.splat import lists as lists
from rlx.codegen.kernels.splat import pixels as pixels
from rlx.codegen.kernels.splat import splat as splat
