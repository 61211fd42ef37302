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
    "np.histogram({{0}}, bins=4)[0]", "np.resize({{0}}, (3, 5))",
    "np.unwrap({{0}})", "np.ediff1d({{0}})",
    "rlx.lax.dynamic_slice({{0}}, (np.argmax({{0}}),), (min(2, {n}),))",
    "rlx.lax.cummax({{0}}, 0)", "rlx.lax.top_k({{0}}, min(2, {n}))[0]",
    "rlx.while_loop(lambda c: np.sum(c * c) < 9, lambda c: c * 1.5 + 0.5, np.abs(np.tanh({{0}})))",
    "rlx.switch(np.argmax({{0}}) % 3, [lambda c: c, lambda c: c * 2, lambda c: -c], {{0}})",
    "rlx.lax.associative_scan(lambda a, b: np.tanh(a) + b, {{0}})",
)  # fmt: skip
INTEGERS = (
    "{{0}} << 1", "{{0}} >> 1", "np.gcd({{0}}, 6)", "np.bitwise_count({{0}})",
    "np.left_shift({{0}}, 2)", "np.invert({{0}})", "np.divmod({{0}}, 3)[1]", "{{0}} // 3",
    "np.lcm({{0}}, 2)", "np.float_power({{0}}, 2)", "{{0}} ** 2", "np.bitwise_not({{0}})",
)  # fmt: skip
COMPLEX = (
    "np.exp({{0}} * 0.25)", "np.sin({{0}})", "np.cos({{0}})", "np.tanh({{0}})", "np.conj({{0}})",
    "np.real({{0}})", "np.imag({{0}})", "np.abs({{0}})", "{{0}} * {{0}}", "{{0}} * 1j", "1 - {{0}}",
    "{{0}} / (np.abs({{0}}) + 1)", "np.sqrt({{0}} * np.conj({{0}}) + 1)", "np.square({{0}})",
    "np.log(np.abs({{0}}) + 1 + 0.5j)", "np.sum({{0}})", "np.mean({{0}}, keepdims=True)",
    "np.cumsum(np.ravel({{0}}))", "np.vdot({{0}}, {{0}})", "{{0}} ** 2", "np.reciprocal({{0}})",
    "np.where(np.abs({{0}}) > 1, {{0}}, 0)", "np.sinh({{0}} * 0.5)", "np.isnan({{0}})",
    "{{0}} == {{0}}", "np.stack([np.real({{0}}), np.imag({{0}})])", "np.prod({{0}} * 0.5)",
)  # fmt: skip
SIGNALS = (
    "np.fft.fft({{0}}, axis={axis})", "np.fft.ifft({{0}}, axis={axis})",
    "np.fft.fft({{0}}, n=6, axis={axis})", "np.fft.fftshift({{0}}, axes={axis})",
    "np.fft.fft2({{0}}) if {{0}}.ndim > 1 else {{0}}", "np.fft.fftn({{0}})",
    "np.fft.irfft({{0}}, n={n}, axis={axis})", "np.abs(np.fft.rfft({{0}}, axis={axis}))",
)  # fmt: skip
IMAGES = (
    "nn.conv({{0}}, {{0}}[:2, :, :2, :3])", "nn.max_pool({{0}}, 2, 1, 'SAME')",
    "nn.conv({{0}}, {{0}}[:1, :, :2, :2], 2, 'VALID')", "nn.avg_pool({{0}}, 2)",
    "nn.conv({{0}}, np.tanh({{0}}[:3, :1, :3, :2]), groups={{0}}.shape[1], dilation=2)"
    " if {{0}}.shape[0] % {{0}}.shape[1] == 0 else {{0}}",
    "nn.conv_transpose({{0}}, np.swapaxes({{0}}[:, :, :2, :2], 0, 1), 2)"
    " if {{0}}.shape[0] == {{0}}.shape[1] else {{0}}",
    "nn.avg_pool({{0}}, 2, 1, 'SAME', count_include_pad=False)", "nn.max_pool({{0}}, (1, 2), 2)",
    "nn.resize({{0}}, (3, 5))", "nn.resize({{0}}, (4, 2), 'nearest')",
    "nn.group_norm({{0}}, np.ones({{0}}.shape[1]), np.zeros({{0}}.shape[1]), 1)",
    "np.pad({{0}}, ((0, 0), (0, 0), (1, 1), (2, 0)), mode='edge')",
    "nn.batch_norm({{0}}, np.ones({n}), np.ones({n}), np.zeros({n}), np.ones({n}))"
    " if {{0}}.shape[1] == {n} else {{0}}",
)  # fmt: skip
LAYERS = (
    "nn.layer_norm({{0}}, np.ones({{0}}.shape[-1]), np.zeros({{0}}.shape[-1]))",
    "nn.rms_norm({{0}}, np.ones({{0}}.shape[-1]))", "nn.softmax_cross_entropy({{0}}, 0 * "
    "np.argmax({{0}}, -1))", "np.pad({{0}}, 1, mode='reflect')", "np.pad({{0}}, 1, mode='wrap')",
    "{{0}} + rlx.random.normal(rlx.random.key(3), {{0}}.shape, {{0}}.dtype)",
    "rlx.random.permutation(rlx.random.key({n}), {{0}}, {axis})",
    "np.where(rlx.random.bernoulli(rlx.random.key(1), 0.7, {{0}}.shape), {{0}}, 0)",
    "{{0}}[..., :1] * np.ones(3, {{0}}.dtype)", "rlx.stop_gradient({{0}}) * {{0}}",
    "np.sum({{0}} * {{0}}, axis={axis}) + np.max({{0}}, axis={axis})",
    "np.sum({{0}}) + np.sum({{0}} * {{0}})", "({{0}} - {{0}}.mean()) / (1 + {{0}}.std())",
    "rlx.lax.dynamic_update_slice({{0}}, {{0}}[:1] * 2, (np.argmax({{0}}.ravel()) % {{0}}.shape[0],"
    " *(0,) * ({{0}}.ndim - 1)))", "rlx.jacfwd(lambda r: np.tanh(r))({{0}}.ravel()[:4])",
    "np.roll({{0}}, 1, {axis}) - 2 * {{0}} + np.roll({{0}}, -1, {axis})",
)  # fmt: skip
INDICES = (
    "{{0}}[np.argsort({{0}}[:, 0])] if {{0}}.ndim > 1 else {{0}}[np.argsort({{0}})]",
    "np.take({{0}}, np.array([[0, 9], [-9, 1]]), {axis}, mode='clip')",
    "np.take({{0}}, np.array([0, {n}, -1]), {axis}, mode='wrap')",
    "{{0}}.at[np.array([0, {n} + 3, 0])].add(1, mode='drop')", "{{0}}.at[..., ::-1].set({{0}})",
    "{{0}}.at[np.array([0, 0, -1])].multiply(2)", "{{0}}.at[np.array([0, 0])].max({{0}}[-1])",
    "{{0}}[np.array([0, -1]), ..., :2]", "{{0}}.at[np.array([-1, 0, -1])].add({{0}}[:1])",
    "rlx.fori_loop(0, {{0}}.shape[0], lambda i, c: c.at[-1 - i].add(c[i] * 0.5), {{0}})",
    "rlx.fori_loop(0, 3, lambda i, c: c.at[i % {{0}}.shape[0], ..., 0].set(i), {{0}})"
    " if {{0}}.ndim > 1 else {{0}}",
    "rlx.fori_loop(0, {{0}}.shape[0], lambda i, c: rlx.cond(i % 2 == 0, lambda y: "
    "y.at[i].multiply(2), lambda y: y, c), {{0}})",
    "rlx.fori_loop(0, {{0}}.shape[0] - 1, lambda i, c: c.at[i + 1:i + 2].add(c[i]) if False else "
    "c.at[i + 1].max(c[i]), {{0}})",
    "rlx.scan(lambda c, i: (c.at[i].set(np.sum(c)), c[i]), {{0}}, np.arange({{0}}.shape[0]))[1]",
    "rlx.fori_loop(0, 4, lambda i, c: np.where(i == 2, c.at[0].add(1), c), {{0}})",
    "rlx.map(lambda i: {{0}}[i] * i, np.arange({{0}}.shape[0])[::-1])",
)  # fmt: skip
DECOMPOSITIONS = (
    "(lambda q, r: q @ r)(*np.linalg.qr({{0}} @ np.swapaxes({{0}}, -1, -2) + 9 * "
    "np.eye({{0}}.shape[-2], dtype={{0}}.dtype)))", "np.linalg.svd({{0}} @ "
    "np.swapaxes({{0}}, -1, -2) + np.eye({{0}}.shape[-2], dtype={{0}}.dtype), compute_uv=False)",
    "np.linalg.eigvalsh({{0}} @ np.swapaxes({{0}}, -1, -2))", "np.linalg.slogdet("
    "{{0}} @ np.swapaxes({{0}}, -1, -2) + 9 * np.eye({{0}}.shape[-2], dtype={{0}}.dtype))[1]",
    "np.linalg.solve({{0}} @ np.swapaxes({{0}}, -1, -2) + 9 * np.eye({{0}}.shape[-2], "
    "dtype={{0}}.dtype), {{0}})", "np.linalg.norm({{0}}, axis=(-2, -1))",
    "np.linalg.matrix_power({{0}} @ np.swapaxes({{0}}, -1, -2) / 9, 3)",
    "np.linalg.cross({{0}}, {{0}}[..., ::-1])"
    " if {{0}}.shape[-1] == 3 else {{0}}",
)  # fmt: skip
HERMITIAN = (
    "np.linalg.solve({gram}, {{0}})", "np.linalg.inv({gram})", "np.linalg.cholesky({gram})",
    "(lambda q, r: q @ r)(*np.linalg.qr({gram}))", "np.linalg.svd({gram}, compute_uv=False)",
    "np.linalg.eigvalsh({gram})", "np.linalg.det({gram} * 0.05)", "np.linalg.pinv({gram})",
    "np.linalg.slogdet({gram})[1]", "np.linalg.lstsq({gram}, {{0}}[..., :2])[0] "
    "if {{0}}.ndim == 2 else {{0}}", "{{0}} @ {{0}}.conj().mT",
    "np.linalg.matrix_norm({gram}, ord=2)",
)  # fmt: skip
"""`{gram}` is a Hermitian matrix that is far from singular."""
