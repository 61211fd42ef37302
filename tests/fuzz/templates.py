"""Lines over the wider library: names of NumPy and layers, by what they take.

`{axis}` is an axis of the operand, `{n}` its extent there.
"""

from __future__ import annotations

FLOATS = (
    "np.exp2(np.minimum({{0}}, 3))", "np.log2(np.abs({{0}}) + 1)", "np.log10(np.abs({{0}}) + 2)",
    "np.arcsin(np.clip({{0}}, -1, 1))", "np.arctanh(np.clip({{0}}, -0.5, 0.5))", "np.tan({{0}})",
    "np.sinc({{0}})", "np.deg2rad({{0}})", "np.heaviside({{0}}, 0.5)", "np.frexp({{0}})[0]",
    "np.modf({{0}})[0]", "np.copysign({{0}}, -1)", "np.clip({{0}}, -0.5, 1.0)",
    "np.nansum({{0}})", "np.isinf({{0}})", "np.cosh(np.tanh({{0}}))", "np.angle({{0}})",
    "nn.selu({{0}})", "nn.hard_sigmoid({{0}})",
    "nn.log_sigmoid({{0}})", "nn.relu6({{0}})", "nn.hard_swish({{0}})",
)  # fmt: skip
ROWS = (
    "np.argsort({{0}}, axis={axis})", "np.diff({{0}}, axis={axis})", "np.ptp({{0}}, axis={axis})",
    "np.take_along_axis({{0}}, np.argsort({{0}}, axis={axis}), {axis})",
    "np.median({{0}}, axis={axis})", "np.quantile({{0}}, 0.3, axis={axis})",
    "np.linalg.norm({{0}}, axis={axis})", "np.cumprod(np.tanh({{0}}), axis={axis})",
    "np.nanmax({{0}}, axis={axis})", "np.nanmean({{0}}, axis={axis})",
    "np.count_nonzero({{0}}, axis={axis})", "np.average({{0}}, axis={axis})",
    "np.gradient({{0}}, axis={axis}) if {n} > 1 else {{0}}", "np.trapezoid({{0}}, axis={axis})",

    "np.delete({{0}}, {n} // 2, {axis}) if {n} else {{0}}", "np.insert({{0}}, {n} // 2, 1, {axis})",
    "np.array_split({{0}}, 2, {axis})[0]", "np.swapaxes({{0}}, 0, {axis})",
    "np.argpartition({{0}}, 0, axis={axis})", "nn.one_hot(np.argmax({{0}}, axis={axis}), {n})",
    "np.apply_along_axis(lambda r: r[::-1] - r, {axis}, {{0}})",
    "np.lexsort(({{0}}, np.abs({{0}})), axis={axis})",
)  # fmt: skip
MATRICES = (
    "np.tril({{0}})", "np.triu({{0}}, 1)", "np.trace({{0}})", "np.rot90({{0}})",
    "np.diagonal({{0}}, 1)", "np.einsum('...ij,...ij->...i', {{0}}, {{0}})",
    "np.einsum('...ij,...kj->...ik', {{0}}, {{0}})", "np.vecdot({{0}}, {{0}})",
    "np.inner({{0}}[..., :3], {{0}}[..., :3])", "np.tensordot({{0}}, {{0}}, {{0}}.ndim)",
    "np.cov({{0}}[:, :]) if {{0}}.ndim == 2 else {{0}}", "np.fliplr({{0}})",
)  # fmt: skip
VECTORS = (
    "np.outer({{0}}[:9], {{0}}[:7])", "np.convolve({{0}}[:40], {{0}}[:3])",
    "np.searchsorted(np.sort({{0}}), {{0}}[:20])", "np.kron({{0}}[:5], {{0}}[:4])",
    "np.interp({{0}}, np.arange(3.0), np.arange(3.0) * 2)", "np.vander({{0}}[:6], 3)",
    "np.polyval({{0}}[:4], {{0}}[:9])", "np.digitize({{0}}, np.array([-1.0, 0.0, 1.0]))",
    "np.bincount(np.argsort({{0}}), length={n})", "np.diag({{0}}[:6])",
    "np.meshgrid({{0}}[:3], {{0}}[:5])[1]", "np.correlate({{0}}[:9], {{0}}[:4])",
    "np.histogram({{0}}, bins=4)[0]", "np.abs(np.fft.rfft({{0}}))", "np.resize({{0}}, (3, 5))",
    "np.unwrap({{0}})", "np.ediff1d({{0}})",
    "rlx.lax.dynamic_slice({{0}}, (np.argmax({{0}}),), (min(2, {n}),))",
    "rlx.lax.cummax({{0}}, 0)", "rlx.lax.top_k({{0}}, min(2, {n}))[0]",
    "rlx.while_loop(lambda c: np.sum(c * c) < 9, lambda c: c * 1.5 + 0.5, np.tanh({{0}}))",
    "rlx.switch(np.argmax({{0}}) % 3, [lambda c: c, lambda c: c * 2, lambda c: -c], {{0}})",
    "rlx.lax.associative_scan(lambda a, b: np.tanh(a) + b, {{0}})",
)  # fmt: skip
INTEGERS = (
    "{{0}} << 1", "{{0}} >> 1", "np.gcd({{0}}, 6)", "np.bitwise_count({{0}})",
    "np.left_shift({{0}}, 2)", "np.invert({{0}})", "np.divmod({{0}}, 3)[1]", "{{0}} // 3",
    "np.lcm({{0}}, 2)", "np.float_power({{0}}, 2)", "{{0}} ** 2", "np.bitwise_not({{0}})",
)  # fmt: skip
