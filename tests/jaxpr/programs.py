"""Programs of libraries on top of JAX: a function, and its arguments.

    python -m tests.jaxpr.programs
    python -m tests.jaxpr.plain_programs

times them, and those of JAX alone, under `jax.jit` and under `rlx.from_jax` in turns.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Made = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Callable[[], Made]] = {}
NEEDS: dict[str, tuple[str, ...]] = {}
"""The libraries that a program imports."""


def program(*needs: str) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    """Register a function that makes a program of some libraries."""

    def register(make: Callable[[], Made]) -> Callable[[], Made]:
        PROGRAMS[make.__name__] = make
        NEEDS[make.__name__] = needs
        return make

    return register


def missing(name: str) -> list[str]:
    """Return the libraries of a program that are not installed."""
    return [x for x in NEEDS[name] if importlib.util.find_spec(x) is None]


def normal(*shape: int, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


@program("equinox", "optax")
def equinox_step() -> Made:
    import equinox as eqx
    import optax

    model = eqx.nn.MLP(8, 4, 32, 2, key=jax.random.key(0))
    optimizer = optax.adam(1e-3)
    arrays, rest = eqx.partition(model, eqx.is_array)

    def loss(arrays: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jax.vmap(eqx.combine(arrays, rest))(x) - y) ** 2)

    def step(arrays: Any, state: Any, x: Any, y: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(arrays, x, y)
        updates, state = optimizer.update(slopes, state)
        return eqx.apply_updates(arrays, updates), state, value

    return step, (arrays, optimizer.init(arrays), normal(16, 8), normal(16, 4, seed=1))


@program("flax", "optax")
def flax_convolutions() -> Made:
    import flax.linen as nn
    import optax

    class Net(nn.Module):  # type: ignore[misc]  # Flax may be missing
        @nn.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            x = nn.max_pool(nn.relu(nn.Conv(16, (3, 3))(x)), (2, 2), (2, 2))
            x = nn.avg_pool(nn.relu(nn.Conv(32, (3, 3))(x)), (2, 2), (2, 2))
            return nn.Dense(10)(x.reshape(x.shape[0], -1))

    net, optimizer, x, y = Net(), optax.adam(1e-3), normal(8, 28, 28, 1), jnp.arange(8) % 10
    params = net.init(jax.random.key(0), x)

    def loss(params: Any, x: Any, y: Any) -> Any:
        logits = net.apply(params, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(slopes, state, params)
        return optax.apply_updates(params, updates), state, value

    return step, (params, optimizer.init(params), x, y)


@program("flax")
def flax_transformer() -> Made:
    import flax.linen as nn

    class Block(nn.Module):  # type: ignore[misc]
        @nn.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            y = nn.LayerNorm()(x)
            x = x + nn.MultiHeadDotProductAttention(4)(y, y)
            return x + nn.Dense(64)(nn.gelu(nn.Dense(256)(nn.LayerNorm()(x))))

    class Net(nn.Module):  # type: ignore[misc]
        @nn.compact  # type: ignore[untyped-decorator]
        def __call__(self, tokens: Any) -> Any:
            x = nn.Embed(100, 64)(tokens)
            return nn.Dense(100)(Block()(Block()(x)))

    tokens = jnp.asarray(np.random.default_rng(0).integers(0, 100, (4, 16)))
    net = Net()

    def loss(params: Any, tokens: Any) -> Any:
        logs = jax.nn.log_softmax(net.apply(params, tokens))
        return -jnp.mean(jnp.take_along_axis(logs, tokens[..., None], -1))

    return jax.value_and_grad(loss), (net.init(jax.random.key(0), tokens), tokens)


@program("haiku")
def haiku_lstm() -> Made:
    import haiku as hk

    def net(x: Any) -> Any:
        core = hk.LSTM(16)
        return hk.dynamic_unroll(core, x, core.initial_state(4))[0]

    pure, x = hk.without_apply_rng(hk.transform(net)), normal(10, 4, 8)
    params = pure.init(jax.random.key(0), x)
    return jax.value_and_grad(lambda p, x: (pure.apply(p, x) ** 2).sum()), (params, x)


@program("optax")
def optax_lbfgs() -> Made:
    import optax

    def rosenbrock(x: Any) -> Any:
        return jnp.sum((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2)

    optimizer, x = optax.lbfgs(), jnp.zeros(6)

    def step(x: Any, state: Any) -> Any:
        value, slope = optax.value_and_grad_from_state(rosenbrock)(x, state=state)
        updates, state = optimizer.update(
            slope, state, x, value=value, grad=slope, value_fn=rosenbrock
        )
        return optax.apply_updates(x, updates), state

    return step, (x, optimizer.init(x))


def diffrax_solve(max_steps: int = 4096) -> Callable[..., Any]:
    """Return the squares of a pendulum's states, a function of its start and stiffness."""
    import diffrax as dfx

    def solve(start: Any, stiffness: Any) -> Any:
        term = dfx.ODETerm(lambda t, y, k: jnp.stack([y[1], -k * jnp.sin(y[0])]))
        control = dfx.PIDController(rtol=1e-5, atol=1e-6)
        times = dfx.SaveAt(ts=jnp.linspace(0.0, 2.0, 10))
        found = dfx.diffeqsolve(
            term, dfx.Tsit5(), 0.0, 2.0, 0.05, start, args=stiffness, saveat=times,
            stepsize_controller=control, max_steps=max_steps,
        )  # fmt: skip
        return jnp.sum(found.ys**2)

    return solve


@program("diffrax")
def diffrax_gradient() -> Made:
    solve = diffrax_solve()
    return jax.value_and_grad(solve, (0, 1)), (jnp.array([1.0, 0.0]), jnp.array(2.0))


@program("lineax")
def lineax_conjugate_gradients() -> Made:
    import lineax as lx

    def solve(a: Any, b: Any) -> Any:
        system = lx.MatrixLinearOperator(a @ a.T + jnp.eye(8), lx.positive_semidefinite_tag)
        return lx.linear_solve(system, b, lx.CG(rtol=1e-5, atol=1e-5)).value

    return solve, (normal(8, 8), normal(8, seed=1))


@program("optimistix")
def optimistix_newton() -> Made:
    import optimistix as optx

    def root(y: Any, k: Any) -> Any:
        solver = optx.Newton(1e-5, 1e-5)
        return optx.root_find(lambda y, k: jnp.tanh(y) - k * y + 0.5, solver, y, k).value

    return root, (normal(4), jnp.array(2.0))


@program("numpyro")
def numpyro_potential() -> Made:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import initialize_model

    x, y = normal(20, 3), normal(20, seed=1)

    def model() -> None:
        weights = numpyro.sample("w", dist.Normal(0, 1).expand([3]))
        scale = numpyro.sample("s", dist.HalfNormal(1))
        numpyro.sample("y", dist.Normal(x @ weights, scale), obs=y)

    found = initialize_model(jax.random.key(0), model)
    return jax.value_and_grad(found.potential_fn), (found.param_info.z,)


@program("blackjax")
def blackjax_nuts() -> Made:
    import blackjax

    kernel = blackjax.nuts(lambda x: -0.5 * jnp.sum(x**2), 0.3, jnp.ones(4))

    def step(state: Any, key: Any) -> Any:
        state, _ = kernel.step(key, state)
        return state, state.position

    def sample(key: Any, state: Any) -> Any:
        return jax.lax.scan(step, state, jax.random.split(key, 100))[1]

    return sample, (jax.random.key(0), kernel.init(jnp.zeros(4)))


@program("distrax")
def distrax_mixture() -> Made:
    import distrax

    def likelihood(logits: Any, means: Any, x: Any) -> Any:
        mixture = distrax.MixtureSameFamily(
            distrax.Categorical(logits=logits), distrax.Normal(means, jnp.ones(3))
        )
        return jax.vmap(mixture.log_prob)(x).sum()

    given = (normal(3), normal(3, seed=1), normal(50, seed=2))
    return jax.value_and_grad(likelihood, (0, 1)), given


@program("tinygp")
def tinygp_likelihood() -> Made:
    import tinygp

    places = jnp.linspace(0, 1, 40)

    def likelihood(p: Any, y: Any) -> Any:
        kernel = jnp.exp(p[0]) * tinygp.kernels.ExpSquared(jnp.exp(p[1]))
        return tinygp.GaussianProcess(kernel, places, diag=0.1).log_probability(y)

    return jax.value_and_grad(likelihood), (jnp.zeros(2), jnp.sin(places))


@program("jax_md")
def jax_md_spheres() -> Made:
    from jax_md import energy, simulate, space

    displacement, shift = space.periodic(10.0)
    start = jnp.asarray(np.random.default_rng(0).uniform(0, 10, (64, 2)).astype("float32"))
    init, advance = simulate.nve(energy.soft_sphere_pair(displacement), shift, 1e-3)
    state = init(jax.random.key(0), start, kT=0.1)
    return (lambda s: jax.lax.fori_loop(0, 10, lambda _, s: advance(s), s).position), (state,)


@program("chex")
def chex_dataclass() -> Made:
    import chex

    @chex.dataclass
    class Pair:
        x: Any
        y: Any

    made: Any = Pair

    def add(pair: Any) -> Any:
        chex.assert_rank(pair.x, 1)
        return made(x=pair.x * 2, y=pair.y + pair.x)

    return add, (made(x=normal(5), y=normal(5, seed=1)),)


def seconds(function: Callable[..., Any], args: tuple[Any, ...], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        function(*args)
    return (time.perf_counter() - start) / repeats


def compare(name: str) -> tuple[float, float, float, float]:
    """Return seconds of the first call and of later ones: under `jax.jit`, under `from_jax`."""
    import rlx
    from rlx.runtime.gateway import find_gateway

    function, args = PROGRAMS[name]()
    compiled, mine = jax.jit(function), rlx.from_jax(function)  # whose results are ready arrays

    def theirs(*given: Any) -> Any:
        return jax.block_until_ready(compiled(*given))

    jax.clear_caches()
    first = [seconds(f, args, 1) for f in (theirs, mine)]
    find_gateway(wait=True)  # which the first program of a process calls without
    repeats = max(3, min(500, int(0.05 / max(seconds(theirs, args, 3), 1e-6))))
    rounds = [[seconds(f, args, repeats) for f in (theirs, mine)] for _ in range(7)]
    later = [min(times) for times in zip(*rounds, strict=True)]
    return first[0], first[1], later[0], later[1]


def main() -> None:
    """Print the times of all programs, or of those named, and geometric means of ratios."""
    names = sys.argv[1:] or [name for name in PROGRAMS if not missing(name)]
    ratios = []
    for name in names:
        first, own_first, later, own = compare(name)
        ratios.append((later / own, first / own_first))
        print(
            f"{name:28s} {later * 1e6:10.1f} us jax {own * 1e6:10.1f} us rlx {later / own:7.2f}x"
            f"   first {first:6.2f} s jax {own_first:6.2f} s rlx",
            flush=True,
        )
    means = np.exp(np.mean(np.log(ratios), axis=0))
    print(f"geometric means: {means[0]:.2f}x, first call {means[1]:.2f}x, of {len(ratios)}")


if __name__ == "__main__":
    main()
