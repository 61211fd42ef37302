"""The ops of Gaussian splatting: importing this module declares them."""

from rlx.public_names import names_of as _names_of
from rlx.splat.formulas import SplatGradients as SplatGradients
from rlx.splat.formulas import gaussian_splat_prepare as gaussian_splat_prepare
from rlx.splat.formulas import gaussian_splat_rasterize as gaussian_splat_rasterize
from rlx.splat.formulas import gaussian_splat_render as gaussian_splat_render
from rlx.splat.formulas import gaussian_splat_render_backward as gaussian_splat_render_backward
from rlx.splat.formulas import gaussian_splat_render_decomposed as gaussian_splat_render_decomposed
from rlx.splat.formulas import (
    unpack_gaussian_splat_packed_grads as unpack_gaussian_splat_packed_grads,
)
from rlx.splat.fusion import fuse_decomposed_gaussian_splat as fuse_decomposed_gaussian_splat
from rlx.splat.graphs import gaussian_splat_render_meta as gaussian_splat_render_meta
from rlx.splat.graphs import gaussian_splat_render_reference as gaussian_splat_render_reference
from rlx.splat.stages import splat_coefficients as splat_coefficients
from rlx.splat.stages import splat_composite as splat_composite
from rlx.splat.stages import splat_composite_backward as splat_composite_backward
from rlx.splat.stages import splat_entries as splat_entries
from rlx.splat.stages import splat_entry_counts as splat_entry_counts
from rlx.splat.stages import splat_project as splat_project
from rlx.splat.stages import splat_project_backward as splat_project_backward
from rlx.splat.stages import splat_sum_moments as splat_sum_moments
from rlx.splat.stages import splat_tile_counts as splat_tile_counts
from rlx.splat.stages import splat_visits as splat_visits

__dir__ = _names_of(__name__)
