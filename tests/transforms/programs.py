"""Small programs as a JAX user writes them: `lib` has transformations and loops, `n` is its NumPy.

Each is a function of a size that returns what to run and its arguments; derivatives are taken
with respect to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Made = tuple[Callable[..., Any], tuple[Any, ...]]
Make = Callable[[Any, Any, int], Made]


@dataclass(frozen=True)
class Sample:
    name: str
    make: Make
    size: int
    derivative: bool = True
    reverse: bool = True


PROGRAMS: list[Sample] = []


def program(size: int, *, derivative: bool = True, reverse: bool = True) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        PROGRAMS.append(Sample(make.__name__, make, size, derivative, reverse))
        return make

    return register


def draws(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


@program(6)
def leapfrog(lib: Any, n: Any, size: int) -> Made:
    """A trajectory of Hamiltonian Monte Carlo; the force is a gradient."""
    precision = draws(4, 4)
    precision = precision @ precision.T + 4 * np.eye(4)

    def potential(q: Any) -> Any:
        return 0.5 * q @ (precision @ q) + n.sum(n.log(1 + q**2))

    force = lib.grad(potential)

    def run(q: Any, p: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            q, p = state
            p = p - 0.005 * force(q)
            q = q + 0.01 * p
            p = p - 0.005 * force(q)
            return (q, p), None

        (q, p), _ = lib.scan(step, (q, p), None, length=size)
        return potential(q) + 0.5 * n.sum(p**2), q

    return run, (draws(4), draws(4, seed=1))


@program(5)
def gaussian_process(lib: Any, n: Any, size: int) -> Made:
    """Log marginal likelihood of Gaussian process regression."""
    x, y = np.linspace(0, 1, size), draws(size)

    def run(theta: Any) -> Any:
        scale, length, noise = n.exp(theta)
        d = x[:, None] - x[None, :]
        k = scale * n.exp(-0.5 * d**2 / length**2) + (noise + 1e-6) * n.eye(size)
        factor = n.linalg.cholesky(k)
        a = lib.solve_triangular(factor, y, lower=True)
        return -0.5 * a @ a - n.sum(n.log(n.diag(factor))) - 0.5 * size * n.log(2 * n.pi)

    return run, (np.array([0.1, -1.0, -2.0]),)


@program(6)
def kalman(lib: Any, n: Any, size: int) -> Made:
    """Log likelihood of a constant velocity model under noise of unknown size."""
    f = np.array([[1, 0.1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.1], [0, 0, 0, 1]])
    h = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0]])

    def run(logs: Any, ys: Any) -> Any:
        q, r = n.exp(logs[0]) * n.eye(4), n.exp(logs[1]) * n.eye(2)

        def step(carry: Any, y: Any) -> Any:
            m, p = carry
            m, p = f @ m, f @ p @ f.T + q
            s = h @ p @ h.T + r
            v = y - h @ m
            gain = n.linalg.solve(s, h @ p).T
            _, logdet = n.linalg.slogdet(s)
            like = -0.5 * (v @ n.linalg.solve(s, v) + logdet)
            return (m + gain @ v, p - gain @ s @ gain.T), like

        _, likes = lib.scan(step, (n.zeros(4), n.eye(4)), ys)
        return n.sum(likes)

    return run, (np.array([-2.0, -1.0]), draws(size, 2))


@program(6)
def hidden_markov(lib: Any, n: Any, size: int) -> Made:
    """Forward algorithm in logarithms, 8 states."""

    def run(transition: Any, emission: Any) -> Any:
        a = transition - lib.logsumexp(transition, axis=1)[:, None]

        def step(alpha: Any, e: Any) -> Any:
            return lib.logsumexp(alpha[:, None] + a, axis=0) + e, None

        alpha, _ = lib.scan(step, emission[0], emission[1:])
        return lib.logsumexp(alpha)

    return run, (draws(8, 8), draws(size, 8, seed=2))


@program(5)
def ctc(lib: Any, n: Any, size: int) -> Made:
    """Connectionist temporal classification over a fixed label sequence."""
    labels = np.array([0, 3, 0, 1, 0, 2, 0, 1, 0])
    skip = np.array(
        [False, False] + [labels[i] != 0 and labels[i] != labels[i - 2] for i in range(2, 9)]
    )

    def run(logits: Any) -> Any:
        logp = logits - lib.logsumexp(logits, axis=1)[:, None]
        emissions = logp[:, labels]
        start = n.where(n.arange(9) < 2, emissions[0], -1e30)

        def step(alpha: Any, e: Any) -> Any:
            one = n.concatenate([n.full((1,), -1e30), alpha[:-1]])
            two = n.where(skip, n.concatenate([n.full((2,), -1e30), alpha[:-2]]), -1e30)
            return n.logaddexp(n.logaddexp(alpha, one), two) + e, None

        alpha, _ = lib.scan(step, start, emissions[1:])
        return -n.logaddexp(alpha[-1], alpha[-2])

    return run, (draws(size + 4, 5),)


@program(8)
def euler_maruyama(lib: Any, n: Any, size: int) -> Made:
    """Paths of an Ornstein-Uhlenbeck process with multiplicative noise."""

    def path(theta: Any, x0: Any, noise: Any) -> Any:
        def step(x: Any, dw: Any) -> Any:
            x = (
                x
                + 0.01 * theta[0] * (theta[1] - x)
                + theta[2] * n.sqrt(0.01) * n.sqrt(1 + x * x) * dw
            )
            return x, None

        return lib.scan(step, x0, noise)[0]

    def run(theta: Any, x0: Any, noise: Any) -> Any:
        return n.mean(lib.vmap(path, in_axes=(None, 0, 0))(theta, x0, noise) ** 2)

    return run, (
        np.array([1.0, 0.5, 0.3]),
        draws(size),
        draws(size, 5, seed=1),
    )


@program(1, reverse=False)
def adaptive_runge_kutta(lib: Any, n: Any, size: int) -> Made:
    """Van der Pol's oscillator with an embedded error estimate (Bogacki and Shampine)."""

    def run(y: Any, mu: Any) -> Any:
        def f(y: Any) -> Any:
            return n.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

        def step(state: Any) -> Any:
            t, y, h = state
            h = n.minimum(h, size - t)
            k1 = f(y)
            k2 = f(y + 0.5 * h * k1)
            k3 = f(y + 0.75 * h * k2)
            new = y + h * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
            k4 = f(new)
            error = h * (-5 / 72 * k1 + 1 / 12 * k2 + 1 / 9 * k3 - 1 / 8 * k4)
            ratio = n.sqrt(n.mean((error / (1e-6 + 1e-6 * n.abs(y))) ** 2))
            accept = ratio < 1
            factor = n.clip(0.9 * (ratio + 1e-10) ** (-1 / 3), 0.2, 5.0)
            return n.where(accept, t + h, t), n.where(accept, new, y), h * factor

        return lib.while_loop(lambda s: s[0] < size - 1e-9, step, (0.0, y, 0.01))[1]

    return run, (np.array([2.0, 0.0]), 2.0)


@program(9, reverse=False)
def newton(lib: Any, n: Any, size: int) -> Made:
    """Kepler's equation for many planets, each until it has converged."""

    def solve(m: Any, e: Any) -> Any:
        def step(state: Any) -> Any:
            x, _ = state
            d = (x - e * n.sin(x) - m) / (1 - e * n.cos(x))
            return x - d, n.abs(d)

        return lib.while_loop(lambda s: s[1] > 1e-12, step, (m, 1.0))[0]

    def run(m: Any, e: Any) -> Any:
        return lib.vmap(solve)(m, e)

    return run, (np.abs(draws(size)), np.linspace(0.05, 0.8, size))


@program(6, reverse=False)
def conjugate_gradient(lib: Any, n: Any, size: int) -> Made:
    a = draws(size, size)
    a = a @ a.T + size * np.eye(size)

    def run(b: Any) -> Any:
        def step(state: Any) -> Any:
            x, r, p, rr, k = state
            ap = a @ p
            alpha = rr / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            new = r @ r
            return x, r, r + new / rr * p, new, k + 1

        def going(state: Any) -> Any:
            return (state[3] > 1e-20) & (state[4] < 200)

        return lib.while_loop(going, step, (n.zeros_like(b), b, b, b @ b, 0))[0]

    return run, (draws(size),)


@program(4)
def power_iteration(lib: Any, n: Any, size: int) -> Made:
    def run(a: Any) -> Any:
        def step(_: Any, v: Any) -> Any:
            w = a @ v
            return w / n.linalg.norm(w)

        v = lib.fori_loop(0, 100, step, n.ones(size) / n.sqrt(size))
        return v @ a @ v

    a = draws(size, size)
    return run, (a + a.T + 2 * size * np.eye(size),)


@program(20)
def least_squares(lib: Any, n: Any, size: int) -> Made:
    x, y = draws(size, 6), draws(size, seed=3)

    def run(weight: Any) -> Any:
        w = n.exp(weight)
        gram = (x * w[:, None]).T @ x + 1e-3 * n.eye(6)
        beta = n.linalg.solve(gram, x.T @ (w * y))
        return n.sum((y - x @ beta) ** 2)

    return run, (0.1 * draws(size, seed=4),)


def _cell_weights(inputs: int, hidden: int, gates: int) -> Any:
    return (
        draws(inputs, gates * hidden).astype("f4") / np.float32(inputs**0.5),
        draws(hidden, gates * hidden, seed=1).astype("f4") / np.float32(hidden**0.5),
        np.zeros(gates * hidden, "f4"),
    )


def _lstm(lib: Any, n: Any, size: int, batch: int, hidden: int) -> Made:
    def run(weights: Any, xs: Any) -> Any:
        wx, wh, b = weights

        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = n.split(x @ wx + h @ wh + b, 4, axis=-1)
            c = lib.sigmoid(f) * c + lib.sigmoid(i) * n.tanh(g)
            h = lib.sigmoid(o) * n.tanh(c)
            return (h, c), h

        zero = n.zeros((batch, hidden), xs.dtype)
        _, hs = lib.scan(step, (zero, zero), xs)
        return n.mean(hs**2)

    return run, (_cell_weights(8, hidden, 4), draws(size, batch, 8, seed=5).astype("f4"))


@program(5)
def lstm(lib: Any, n: Any, size: int) -> Made:
    return _lstm(lib, n, size, 1, 4)


@program(5)
def lstm_batch(lib: Any, n: Any, size: int) -> Made:
    return _lstm(lib, n, size, 3, 4)


def _gru(lib: Any, n: Any, size: int, batch: int, hidden: int) -> Made:
    def run(weights: Any, xs: Any) -> Any:
        wx, wh, b = weights

        def step(h: Any, x: Any) -> Any:
            gx, gh = x @ wx + b, h @ wh
            r = lib.sigmoid(gx[..., :hidden] + gh[..., :hidden])
            z = lib.sigmoid(gx[..., hidden : 2 * hidden] + gh[..., hidden : 2 * hidden])
            c = n.tanh(gx[..., 2 * hidden :] + r * gh[..., 2 * hidden :])
            h = (1 - z) * c + z * h
            return h, h

        shape = (batch, hidden) if batch else (hidden,)
        _, hs = lib.scan(step, n.zeros(shape, xs.dtype), xs)
        return n.mean(hs**2)

    shape = (size, batch, 8) if batch else (size, 8)
    return run, (_cell_weights(8, hidden, 3), draws(*shape, seed=5).astype("f4"))


@program(5)
def gru_vector(lib: Any, n: Any, size: int) -> Made:
    return _gru(lib, n, size, 0, 4)


@program(5)
def gru_batch(lib: Any, n: Any, size: int) -> Made:
    return _gru(lib, n, size, 2, 4)


@program(5)
def neural_ode(lib: Any, n: Any, size: int) -> Made:
    """Runge and Kutta's method of a small network."""

    def run(weights: Any, y0: Any) -> Any:
        w1, b1, w2, b2 = weights

        def f(y: Any) -> Any:
            return n.tanh(y @ w1 + b1) @ w2 + b2

        def step(y: Any, _: Any) -> Any:
            h = 0.05
            k1 = f(y)
            k2 = f(y + h / 2 * k1)
            k3 = f(y + h / 2 * k2)
            k4 = f(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), y

        last, path = lib.scan(step, y0, None, length=size)
        return n.mean(path**2) + n.sum(last)

    weights = (draws(2, 16) * 0.3, np.zeros(16), draws(16, 2, seed=1) * 0.3, np.zeros(2))
    return run, (weights, np.array([1.0, 0.5]))


@program(8)
def heat(lib: Any, n: Any, size: int) -> Made:
    def run(u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            inner = u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
            return u.at[1:-1].set(inner)

        return lib.fori_loop(0, 3, step, u)

    return run, (draws(size),)


@program(6, derivative=False)
def life(lib: Any, n: Any, size: int) -> Made:
    def run(board: Any) -> Any:
        def step(_: Any, board: Any) -> Any:
            count = sum(
                n.roll(n.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j
            )
            return n.where((count == 3) | ((board == 1) & (count == 2)), 1, 0).astype(board.dtype)

        return lib.fori_loop(0, 100, step, board)

    return run, ((draws(size, size) > 0).astype(np.int32),)


@program(9, derivative=False)
def automaton(lib: Any, n: Any, size: int) -> Made:
    """Wolfram's rule 110, all generations."""
    table = np.array([(110 >> i) & 1 for i in range(8)], np.int32)

    def run(cells: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            code = 4 * n.roll(c, 1) + 2 * c + n.roll(c, -1)
            return n.asarray(table)[code], c

        return lib.scan(step, cells, None, length=size)[1]

    return run, ((draws(size) > 0).astype(np.int32),)


@program(5)
def smith_waterman(lib: Any, n: Any, size: int) -> Made:
    """Smooth local alignment: a scan over columns in a scan over rows."""

    def run(scores: Any, gap: Any) -> Any:
        def row(previous: Any, s: Any) -> Any:
            def column(left: Any, x: Any) -> Any:
                diagonal, up, score = x
                options = n.stack([diagonal + score, up - gap, left - gap, 0.0 * score])
                h = lib.logsumexp(options)
                return h, h

            shifted = n.concatenate([n.zeros(1), previous[:-1]])
            _, h = lib.scan(column, 0.0, (shifted, previous, s))
            return h, h

        _, h = lib.scan(row, n.zeros(size), scores)
        return lib.logsumexp(h.ravel())

    return run, (draws(size, size), 0.7)


@program(4)
def matrix_exponential(lib: Any, n: Any, size: int) -> Made:
    def run(a: Any) -> Any:
        a = a / 2.0**6
        term = total = n.eye(size)
        for k in range(1, 9):
            term = term @ a / k
            total = total + term
        return lib.fori_loop(0, 6, lambda _, m: m @ m, total)

    return run, (draws(size, size) / size,)


@program(6, derivative=False)
def levenshtein(lib: Any, n: Any, size: int) -> Made:
    """Rows of the table, the dependence along a row by a running minimum."""

    def run(a: Any, b: Any) -> Any:
        places = n.arange(size + 1)

        def row(previous: Any, x: Any) -> Any:
            i, c = x
            change = n.minimum(previous[1:] + 1, previous[:-1] + (b != c))
            start = n.concatenate([n.reshape(i + 1, (1,)), change])
            new = lib.associative_scan(n.minimum, start - places) + places
            return new, None

        last, _ = lib.scan(row, places, (n.arange(size), a))
        return last[-1]

    letters = np.random.default_rng(1).integers(0, 4, (2, size))
    return run, (letters[0], letters[1])


@program(6)
def quaternion(lib: Any, n: Any, size: int) -> Made:
    def product(p: Any, q: Any) -> Any:
        w, v = p[0], p[1:]
        return n.concatenate(
            [n.stack([w * q[0] - v @ q[1:]]), w * q[1:] + q[0] * v + n.cross(v, q[1:])]
        )

    def run(q: Any, omegas: Any) -> Any:
        def step(q: Any, omega: Any) -> Any:
            q = q + 0.005 * product(q, n.concatenate([n.zeros(1), omega]))
            return q / n.linalg.norm(q), q[0]

        last, path = lib.scan(step, q, omegas)
        return n.sum(path) + last[1]

    return run, (np.array([1.0, 0.1, 0.2, 0.3]), draws(size, 3))


@program(5)
def springs(lib: Any, n: Any, size: int) -> Made:
    """Masses in a chain with a few cross links; forces are added by scatter-add."""
    links = np.array([(i, i + 1) for i in range(size - 1)] + [(0, size - 1), (1, size // 2)])
    left, right = links[:, 0], links[:, 1]

    def run(x: Any, stiffness: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            x, v = state
            d = x[right] - x[left]
            length = n.sqrt(n.sum(d * d, axis=1) + 1e-9)
            f = stiffness * (length - 1.0)[:, None] * d / length[:, None]
            force = n.zeros_like(x).at[left].add(f).at[right].add(-f)
            v = 0.999 * v + 0.01 * force
            return (x + 0.01 * v, v), None

        (x, _), _ = lib.scan(step, (x, n.zeros_like(x)), None, length=4)
        return n.sum(x**2)

    return run, (draws(size, 2), 3.0)


@program(6, derivative=False)
def bubble_sort(lib: Any, n: Any, size: int) -> Made:
    def run(x: Any) -> Any:
        def outer(i: Any, x: Any) -> Any:
            def inner(j: Any, x: Any) -> Any:
                a, b = x[j], x[j + 1]
                return x.at[j].set(n.minimum(a, b)).at[j + 1].set(n.maximum(a, b))

            return lib.fori_loop(0, size - 1, inner, x)

        return lib.fori_loop(0, size, outer, x)

    return run, (draws(size),)


@program(6, derivative=False)
def insertion_sort(lib: Any, n: Any, size: int) -> Made:
    def run(x: Any) -> Any:
        def outer(i: Any, x: Any) -> Any:
            value = x[i]

            def going(state: Any) -> Any:
                j, x = state
                return (j > 0) & (x[n.maximum(j - 1, 0)] > value)

            def shift(state: Any) -> Any:
                j, x = state
                return j - 1, x.at[j].set(x[j - 1])

            j, x = lib.while_loop(going, shift, (i, x))
            return x.at[j].set(value)

        return lib.fori_loop(1, size, outer, x)

    return run, (draws(size),)


@program(8)
def table_walk(lib: Any, n: Any, size: int) -> Made:
    """A walk on a table: each step reads where the last one led."""
    places = np.random.default_rng(2).permutation(256)

    def run(values: Any) -> Any:
        follow = n.asarray(places)

        def step(carry: Any, _: Any) -> Any:
            at, total = carry
            return (follow[at], 0.9 * total + values[at]), None

        return lib.scan(step, (0, 0.0), None, length=size)[0][1]

    return run, (draws(256),)


@program(5, derivative=False)
def mandelbrot(lib: Any, n: Any, size: int) -> Made:
    def escape(c: Any) -> Any:
        def step(state: Any) -> Any:
            z, k = state
            return z * z + c, k + 1

        def going(state: Any) -> Any:
            z, k = state
            return (n.real(z) ** 2 + n.imag(z) ** 2 < 4.0) & (k < 100)

        return lib.while_loop(going, step, (0 * c, 0))[1]

    def run(grid: Any) -> Any:
        return lib.vmap(lib.vmap(escape))(grid)

    re, im = np.linspace(-2, 0.6, size), np.linspace(-1.2, 1.2, size)
    return run, ((re[None, :] + 1j * im[:, None]).astype(np.complex64),)


@program(8, derivative=False)
def complex_recurrence(lib: Any, n: Any, size: int) -> Made:
    def run(z: Any, xs: Any) -> Any:
        return lib.scan(lambda z, x: (z * np.complex64(0.9 + 0.1j) + x, n.abs(z)), z, xs)

    xs = (draws(size) + 1j * draws(size, seed=1)).astype(np.complex64)
    return run, (np.complex64(1 + 1j), xs)


@program(8)
def half_scan(lib: Any, n: Any, size: int) -> Made:
    def run(c: Any, xs: Any) -> Any:
        return lib.scan(lambda c, x: (n.tanh(c * 0.5 + x), c), c, xs)

    return run, (draws(16).astype(np.float16), draws(size, 16, seed=1).astype(np.float16))


@program(8)
def brain_float_scan(lib: Any, n: Any, size: int) -> Made:
    import ml_dtypes

    def run(c: Any, xs: Any) -> Any:
        return lib.scan(lambda c, x: (n.tanh(c * 0.5 + x), c), c, xs)

    return run, (
        draws(16).astype(ml_dtypes.bfloat16),
        draws(size, 16, seed=1).astype(ml_dtypes.bfloat16),
    )


@program(8, derivative=False)
def xorshift(lib: Any, n: Any, size: int) -> Made:
    def run(seed: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            x = x ^ (x << 13)
            x = x ^ (x >> 17)
            x = x ^ (x << 5)
            return x, x

        return lib.scan(step, seed, None, length=size)[1]

    return run, (np.uint32(2463534242),)


@program(9)
def running_maximum(lib: Any, n: Any, size: int) -> Made:
    def run(x: Any) -> Any:
        return lib.associative_scan(n.maximum, x)

    return run, (draws(size),)


@program(3)
def batched_cholesky(lib: Any, n: Any, size: int) -> Made:
    a = draws(size, 8, 8)

    def run(a: Any) -> Any:
        factor = n.linalg.cholesky(a @ n.swapaxes(a, -1, -2) + 8 * n.eye(8))
        return n.sum(n.log(n.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)

    return run, (a,)


@program(5)
def log_determinant(lib: Any, n: Any, size: int) -> Made:
    return lambda a: n.linalg.slogdet(a)[1], (draws(size, size) + 3 * np.eye(size),)


@program(3)
def batched_triangular(lib: Any, n: Any, size: int) -> Made:
    a = np.tril(draws(size, 8, 8)) + 4 * np.eye(8)
    return lambda a, b: lib.solve_triangular(a, b, lower=True), (a, draws(size, 8, 2, seed=1))


@program(3)
def batched_inverse(lib: Any, n: Any, size: int) -> Made:
    return lambda a: n.linalg.inv(a), (draws(size, 6, 6) + 6 * np.eye(6),)


@program(7)
def mixture(lib: Any, n: Any, size: int) -> Made:
    """Log likelihood of a mixture written term by term, as generated models are."""
    data = draws(size)

    def run(params: Any) -> Any:
        mean, log_scale, logits = params
        weights = logits - lib.logsumexp(logits)
        total = 0.0
        for x in data:
            z = (x - mean) * n.exp(-log_scale)
            total = total + lib.logsumexp(weights - 0.5 * z * z - log_scale)
        return total

    return run, ((draws(3), 0.1 * draws(3, seed=1), draws(3, seed=2)),)


@program(4)
def nested_transforms(lib: Any, n: Any, size: int) -> Made:
    """Gradient descent inside a scan, vmapped over starting points, differentiated again."""

    def objective(x: Any, a: Any) -> Any:
        return n.sum((x[1:] - a * x[:-1] ** 2) ** 2) + n.sum((1 - x) ** 2)

    def descend(x0: Any, a: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            value, slope = lib.value_and_grad(objective)(x, a)
            return x - 1e-3 * slope, value

        x, values = lib.scan(step, x0, None, length=4)
        return n.sum(values) * 1e-2 + n.sum(x)

    def run(a: Any, x0: Any) -> Any:
        return n.mean(lib.vmap(descend, in_axes=(0, None))(x0, a))

    return run, (1.5, draws(size, 4) * 0.3)


@program(4)
def jacobian(lib: Any, n: Any, size: int) -> Made:
    def f(x: Any) -> Any:
        return n.sin(x) * n.roll(x, 1) + n.cumsum(x**2)

    return lambda x: lib.jacfwd(f)(x), (draws(size),)


@program(4)
def hessian(lib: Any, n: Any, size: int) -> Made:
    def f(x: Any) -> Any:
        return n.sum(n.exp(-x[1:] * x[:-1])) + n.prod(n.cos(x))

    return lambda x: lib.hessian(f)(x), (draws(size),)


@program(4)
def lorenz_sensitivity(lib: Any, n: Any, size: int) -> Made:
    """The state and its Jacobian carried along together."""

    def f(x: Any, p: Any) -> Any:
        return n.stack(
            [p[0] * (x[1] - x[0]), x[0] * (p[1] - x[2]) - x[1], x[0] * x[1] - p[2] * x[2]]
        )

    def run(p: Any, x: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            x, j = state
            return (x + 0.01 * f(x, p), j + 0.01 * lib.jacfwd(f)(x, p) @ j), None

        (x, j), _ = lib.scan(step, (x, n.eye(3)), None, length=size)
        return x, j

    return run, (np.array([10.0, 28.0, 8 / 3]), np.array([1.0, 1.0, 1.0]))


@program(5)
def garch(lib: Any, n: Any, size: int) -> Made:
    def run(p: Any, returns: Any) -> Any:
        def step(var: Any, r: Any) -> Any:
            like = -0.5 * (n.log(var) + r * r / var)
            return n.exp(p[0]) + lib.sigmoid(p[1]) * 0.5 * var + lib.sigmoid(
                p[2]
            ) * 0.5 * r * r, like

        return n.sum(lib.scan(step, 1.0, returns)[1])

    return run, (np.array([-2.0, 1.0, 0.3]), draws(size))


@program(5)
def viterbi(lib: Any, n: Any, size: int) -> Made:
    """Best path: a forward scan of maxima, a backward scan of pointers."""

    def run(transition: Any, emission: Any) -> Any:
        def forward(score: Any, e: Any) -> Any:
            options = score[:, None] + transition
            return n.max(options, axis=0) + e, n.argmax(options, axis=0)

        score, pointers = lib.scan(forward, emission[0], emission[1:])
        last = n.argmax(score)
        _, path = lib.scan(
            lambda state, row: (row[state], row[state]), last, pointers, reverse=True
        )
        return n.max(score), path

    return run, (draws(6, 6), draws(size, 6, seed=2))


@program(5)
def piecewise(lib: Any, n: Any, size: int) -> Made:
    """A bouncing ball: a branch in every step."""

    def run(v: Any, x: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            x, v = state
            v = v - 0.01 * 9.8
            x = x + 0.01 * v
            x, v = lib.cond(x < 0, lambda x, v: (-x, -0.8 * v), lambda x, v: (x, v), x, v)
            return (x, v), x

        _, path = lib.scan(step, (x, v), None, length=size)
        return n.sum(path)

    return run, (0.3, 1.0)


@program(12)
def fir_filter(lib: Any, n: Any, size: int) -> Made:
    """A delay line kept by shifting, read by a dot product."""

    def run(taps: Any, xs: Any) -> Any:
        def step(line: Any, x: Any) -> Any:
            line = n.concatenate([n.reshape(x, (1,)), line[:-1]])
            return line, line @ taps

        return lib.scan(step, n.zeros(8), xs)[1]

    return run, (draws(8), draws(size))


@program(12)
def ring_buffer(lib: Any, n: Any, size: int) -> Made:
    """A delay line kept in a ring, written and read at runtime indices."""

    def run(gain: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            ring, at = carry
            y = x + gain * ring[at]
            return (ring.at[at].set(y), (at + 1) % 100), y

        return lib.scan(step, (n.zeros(100), 0), xs)[1]

    return run, (0.7, draws(size))


@program(6)
def lotka_fit(lib: Any, n: Any, size: int) -> Made:
    """Gradient descent steps on the fit of a simulated trajectory."""

    def simulate(p: Any) -> Any:
        def step(s: Any, _: Any) -> Any:
            x, y = s
            return (x + 0.01 * x * (p[0] - p[1] * y), y + 0.01 * y * (p[2] * x - p[3])), (x, y)

        return lib.scan(step, (1.0, 0.5), None, length=size)[1]

    def run(p: Any, target: Any) -> Any:
        def loss(p: Any) -> Any:
            x, y = simulate(p)
            return n.mean((x - target) ** 2 + (y - target) ** 2)

        return lib.fori_loop(0, 10, lambda _, p: p - 0.01 * lib.grad(loss)(p), p)

    return run, (np.array([1.0, 0.5, 0.4, 0.6]), draws(size) * 0.1 + 1)


@program(4)
def n_body(lib: Any, n: Any, size: int) -> Made:
    def run(x: Any, v: Any) -> Any:
        def force(x: Any) -> Any:
            d = x[None] - x[:, None]
            r2 = n.sum(d * d, -1) + 1e-2
            return n.sum(d * (r2**-1.5)[..., None], axis=1)

        def step(s: Any, _: Any) -> Any:
            x, v = s
            v = v + 0.005 * force(x)
            x = x + 0.01 * v
            return (x, v + 0.005 * force(x)), None

        (x, v), _ = lib.scan(step, (x, v), None, length=3)
        return n.sum(x * x)

    return run, (draws(size, 3), draws(size, 3, seed=1) * 0.1)


@program(9)
def batched_runge_kutta(lib: Any, n: Any, size: int) -> Made:
    """A pendulum with its own damping for each instance, by vmap of a scan with outputs."""

    def one(damping: Any, y: Any) -> Any:
        def f(y: Any) -> Any:
            return n.stack([y[1], -n.sin(y[0]) - damping * y[1]])

        def step(y: Any, _: Any) -> Any:
            k1 = f(y)
            k2 = f(y + 0.05 * k1)
            return y + 0.1 * k2, y[0]

        return lib.scan(step, y, None, length=4)[1]

    return lambda damping, y: lib.vmap(one)(damping, y), (np.linspace(0, 1, size), draws(size, 2))
