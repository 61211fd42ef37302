"""NaN and infinities through products of codes, which hold finite numbers only.

A flag has an element for each row of a product, or each pixel and group of a convolution: 0 where
what it reads is finite, NaN where it is not. It is added to the scaled sums.

    %flag: f32[M, 1] = reduce_sum (%x * 0)      0 * inf and 0 * NaN are NaN
"""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.quantization.sites import Site


def flag_of(site: Site, x: Value) -> Value:
    """Return the flags of the rows, or windows, of `x` that the product at `site` reads.

    They broadcast against its result: `[..., M, 1]`, or `[B, groups, spatial...]` with the groups
    repeated for the channels of each.
    """
    if site.node.op is ops.matmul:
        return ops.reduce_sum(x * 0.0, axes=(x.rank - 1,), keepdims=True)
    return _of_windows(site, x)


def _of_windows(site: Site, x: Value) -> Value:
    """Sum the zeros of the channels of each group, and then those of each window."""
    attributes = site.node.attrs.as_dict()
    groups, w = attributes.pop("groups"), site.node.operands[1]
    batch, channels, *spatial = x.shape
    grouped = ops.reshape(x * 0.0, shape=(batch * groups, channels // groups, *spatial))
    pixels = ops.reduce_sum(grouped, axes=(1,), keepdims=True)
    taps = x.graph.constant(np.ones((1, 1, *w.shape[2:]), np.float32))
    windows = ops.conv(pixels, taps, **attributes)
    extents = windows.shape[2:]
    flags = ops.reshape(windows, shape=(batch, groups, 1, *extents))
    if groups == 1:
        return ops.reshape(flags, shape=(batch, 1, *extents))
    wide = ops.expand(flags, shape=(batch, groups, w.shape[0] // groups, *extents))
    return ops.reshape(wide, shape=site.node.result.shape)
