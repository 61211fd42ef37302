"""Programs drawn from a seed: each line is run as it is drawn, so that shapes always fit."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import rlx
from rlx.errors import InternalError, RlxError
from rlx.ir.reference import evaluate
from tests.fuzz import templates
from tests.fuzz.expressions import expression, like
from tests.fuzz.program import (
    DTYPES,
    FLOATS,
    NAMES,
    TRANSFORMATIONS,
    Array,
    Line,
    RandomProgram,
    draw,
    of_rlx,
)

_LARGEST = 200_000
_LARGEST_STEP = 10_000_000
"""Elements of a value that is gone at once: an outer product has as many as fit no memory."""
_SHAPES: tuple[tuple[int, ...], ...] = (
    (), (1,), (3,), (5,), (8,), (17,), (0,), (2, 3), (3, 3), (1, 4), (4, 1), (7, 5), (0, 3), (3, 0),
    (2, 3, 4), (3, 1, 5), (2, 2, 2), (1, 1, 1), (2, 3, 2, 3), (1, 2, 1, 3, 2), (33, 9), (130,),
    (2, 2, 5, 7), (3, 3, 4, 6),
)  # fmt: skip
_LARGE = ((70_001,), (131, 129), (300, 64), (3, 97, 70), (64, 300), (131_073,))


class UnfitError(Exception):
    """A line that does not fit the values at hand: another is drawn."""


@dataclass
class Draft:
    """A program while it is drawn: the values so far, and where random choices come from."""

    pick: random.Random
    values: list[Array]
    lines: list[Line] = field(default_factory=list)

    def add(self, template: str, *operands: int) -> None:
        """Append a line, and the value that it has at once; UnfitError where it has none."""
        line = Line(len(self.values), template, operands)
        names = dict.fromkeys(f"v{n}" for n in operands)
        code = template.format(*(f"v{n}" for n in operands))
        function = eval(f"lambda {', '.join(names)}: {code}", {**vars(_LIBRARY), "DTYPES": DTYPES})
        values = [self.values[n] for n in dict.fromkeys(operands)]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                value = at_once(function, values)
        except (UnfitError, MemoryError):
            raise UnfitError(code) from None
        except Exception as error:
            if isinstance(error, RlxError) and not isinstance(error, InternalError):
                raise UnfitError(code) from error
            value = values[0]  # `check` finds the fault again, and reports it
        if np.size(value) > _LARGEST or np.asarray(value).dtype not in NAMES:
            raise UnfitError(code)
        self.values.append(np.asarray(value))
        self.lines.append(line)

    def choose(self, fits: Callable[[Array], bool] = lambda _: True) -> int:
        """Return the number of a value, a late one more often; UnfitError if none fits."""
        fitting = [n for n, value in enumerate(self.values) if fits(value)]
        if not fitting:
            raise UnfitError
        return max(self.pick.choice(fitting), self.pick.choice(fitting))


def at_once(function: Callable[..., Any], values: Sequence[Array]) -> Array:
    """Return the one result of a function, by the reference."""
    graph = rlx.jit(function).graph(*values)
    if any(math.prod(v.type.static_shape) > _LARGEST_STEP for n in graph.nodes for v in n.results):
        raise UnfitError
    feeds = {str(v.node.name): x for v, x in zip(graph.inputs, values, strict=True)}
    return evaluate(graph, feeds)[0]


_LIBRARY = of_rlx()


def is_float(x: Array) -> bool:
    return NAMES[x.dtype] in FLOATS


def is_number(x: Array) -> bool:
    return x.dtype != np.bool_


def is_real(x: Array) -> bool:
    return x.dtype.kind != "c"


def is_int(x: Array) -> bool:
    return x.dtype.kind in "iu"


def is_complex(x: Array) -> bool:
    return x.dtype.kind == "c"


def is_signal(x: Array) -> bool:
    """True for finite floats: where sums of others are NaN depends on how they are split."""
    return x.dtype.kind in "fc" and bool(np.all(np.isfinite(x)))


def is_matrix(x: Array) -> bool:
    return NAMES[x.dtype] in ("f32", "f64") and x.ndim >= 2


def has_axis(x: Array) -> bool:
    return x.ndim > 0 and x.shape[-1] > 0


def program(seed: int, *, lines: int = 12, large: bool = False) -> RandomProgram:
    """Return the program of a seed: of 1 to `lines` lines over 1 to 3 inputs."""
    pick = random.Random(seed)
    shapes = _LARGE if large else _SHAPES
    dtypes = [_dtype(pick) for _ in range(pick.randint(1, 3))]
    inputs = tuple((dtype, pick.choice(shapes)) for dtype in dtypes)
    numbers = np.random.default_rng([seed, 0])
    draft = Draft(pick, [draw(numbers, *given) for given in inputs])
    for _ in range(pick.randint(1, lines)):
        for _ in range(20):
            try:
                pick.choice(_KINDS)(draft)
                break
            except UnfitError:
                continue
    outputs = _outputs(pick, draft)
    transformation = pick.choice(("none",) * 3 + TRANSFORMATIONS)
    if not any(dtype in FLOATS for dtype, _ in inputs) or large:
        transformation = "none"
    symbolic = transformation in ("none", "grad") and pick.random() < 0.15
    return RandomProgram(inputs, tuple(draft.lines), outputs, transformation, seed, symbolic)


def _dtype(pick: random.Random) -> str:
    return pick.choice(("f32",) * 8 + ("f64",) * 3 + tuple(DTYPES))


def _outputs(pick: random.Random, draft: Draft) -> tuple[int, ...]:
    numbers = range(len(draft.values))
    others = [pick.choice(numbers) for _ in range(pick.randint(0, 2))]
    return tuple(dict.fromkeys([*others, numbers[-1]]))


# Kinds of lines

_FLOAT_UNARY = (
    "np.tanh({0})", "np.sin({0})", "np.cos({0})", "np.exp(np.minimum({0}, 2))", "np.arctan({0})",
    "np.log(np.abs({0}) + 1)", "np.sqrt(np.abs({0}))", "np.expm1(np.minimum({0}, 2))",
    "np.log1p(np.abs({0}))", "1 / (np.abs({0}) + 1)", "nn.sigmoid({0})", "nn.silu({0})",
    "nn.gelu({0})", "nn.relu({0})", "nn.softplus({0})", "nn.mish({0})", "nn.elu({0})",
    "nn.leaky_relu({0})", "np.floor({0})", "np.ceil({0})", "np.trunc({0})", "np.rint({0})",
    "np.isnan({0})", "np.isfinite({0})", "np.cbrt({0})", "np.sinh(np.tanh({0}))", "np.sign({0})",
    "np.arcsinh({0})", "np.power(np.abs({0}) + 1, 0.5)", "{0} ** 2", "{0} ** 3", "{0} * 2",
    "{0} + 1",
    "1 - {0}", "0.5 * {0}", "np.reciprocal({0})", "np.log({0})", "np.sqrt({0})", "np.erf({0})"
    if hasattr(_LIBRARY.np, "erf") else "nn.tanh({0})", "np.nan_to_num({0})", "np.signbit({0})"
    if hasattr(_LIBRARY.np, "signbit") else "{0} < 0",
)  # fmt: skip
_ANY_UNARY = ("-{0}", "np.abs({0})", "np.square({0})", "{0} + {0}", "{0} * {0}")
_BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1}", "np.maximum({0}, {1})", "np.minimum({0}, {1})",
    "{0} < {1}", "{0} == {1}", "{0} >= {1}", "{0} != {1}", "np.where({0} > {1}, {0}, {1})",
)  # fmt: skip
_FLOAT_BINARY = (
    "{0} / (np.abs({1}) + 1)", "np.arctan2({0}, {1})", "np.hypot({0}, {1})", "{0} / {1}",
    "np.fmod({0}, np.abs({1}) + 1)", "np.logaddexp({0}, {1})", "np.power(np.abs({0}) + 0.5, {1})",
)  # fmt: skip
_INT_BINARY = ("{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} // {1}", "{0} % {1}", "~{0}")
_REDUCTIONS = ("sum", "mean", "max", "min", "prod", "var", "std", "any", "all", "argmax", "argmin")


def unary(d: Draft) -> None:
    if d.pick.random() < 0.75:
        d.add(d.pick.choice(_FLOAT_UNARY), d.choose(is_float))
    else:
        d.add(d.pick.choice(_ANY_UNARY), d.choose(is_number))


def binary(d: Draft) -> None:
    a = d.choose(lambda x: is_number(x) and is_real(x))
    first = d.values[a]
    templates = _BINARY + (_FLOAT_BINARY if is_float(first) else ())
    templates += _INT_BINARY if is_int(first) else ()

    def fits(y: Array) -> bool:
        return y.dtype == first.dtype and _broadcasts(first.shape, y.shape)

    d.add(d.pick.choice(templates), a, d.choose(fits))


def mixed(d: Draft) -> None:
    """Operands of two dtypes: promotion."""
    a = d.choose(is_real)
    shape = d.values[a].shape
    b = d.choose(lambda y: is_real(y) and _broadcasts(shape, y.shape))
    d.add(d.pick.choice(("{0} + {1}", "{0} * {1}", "np.maximum({0}, {1})")), a, b)


def select(d: Draft) -> None:
    condition = d.choose(lambda x: x.dtype == np.bool_)
    a = d.choose(lambda x: _broadcasts(d.values[condition].shape, x.shape))
    d.add("np.where({0}, {1}, 0)", condition, a)


def cast(d: Draft) -> None:
    to = d.pick.choice(("f32", "f64", "f16", "bf16", "i32", "i64", "bool"))
    a = d.choose(lambda x: is_real(x) and (to in FLOATS or to == "bool" or _is_modest(x)))
    d.add(f'{{0}}.astype(DTYPES["{to}"])', a)


def move(d: Draft) -> None:
    a = d.choose()
    x = d.values[a]
    templates = [
        "np.ravel({0})",
        "np.expand_dims({0}, 0)",
        "np.stack([{0}, {0}])",
        "np.transpose({0})",
    ]
    if x.ndim:
        axis, n = d.pick.randrange(x.ndim), d.pick
        extent = x.shape[axis]
        start = n.randint(0, extent)
        colons = ", ".join([":"] * axis)
        head = f"{colons}, " if colons else ""
        templates += [
            f"np.flip({{0}}, {axis})", f"np.roll({{0}}, {n.randint(-3, 3)}, {axis})",
            f"np.concatenate([{{0}}, {{0}}], {axis})", f"np.repeat({{0}}, 2, {axis})",
            f"{{0}}[{head}{start}:]", f"{{0}}[{head}:{start}]", f"{{0}}[{head}::2]",
            f"{{0}}[{head}::-1]",
            f"np.pad({{0}}, {n.randint(0, 2)})", f"np.moveaxis({{0}}, {axis}, 0)",
            "np.tile({0}, 2)", "np.broadcast_to({0}, (2,) + {0}.shape)",
            f"np.concatenate([{{0}}[{head}{start}:], {{0}}[{head}:{start}]], {axis})",
            f"{{0}}[{head}1:] - {{0}}[{head}:-1]" if is_number(x) and is_real(x) else "{0}",
        ]  # fmt: skip
        if extent:
            templates += [
                f"np.take({{0}}, np.array([0, {extent - 1}, 0]), {axis})",
                f"{{0}}[{head}-1]",
            ]
    d.add(d.pick.choice(templates), a)


def reduce(d: Draft) -> None:
    a = d.choose(lambda x: is_number(x) and is_real(x))
    x = d.values[a]
    name = d.pick.choice(_REDUCTIONS)
    if name == "prod":
        a = d.choose(lambda x: is_float(x) and x.size < 40)
        x = d.values[a]
    axis = d.pick.choice([None, *range(x.ndim)])
    keep = "" if name.startswith("arg") or d.pick.random() < 0.6 else ", keepdims=True"
    d.add(f"np.{name}({{0}}, axis={axis}{keep})", a)


def rows(d: Draft) -> None:
    a = d.choose(lambda x: is_float(x) and has_axis(x))
    axis = d.pick.randrange(d.values[a].ndim)
    templates = (
        f"nn.softmax({{0}}, axis={axis})", f"nn.log_softmax({{0}}, axis={axis})",
        f"nn.logsumexp({{0}}, axis={axis})", f"np.cumsum({{0}}, axis={axis})",
        f"np.sort({{0}}, axis={axis})", f"{{0}} - np.mean({{0}}, axis={axis}, keepdims=True)",
        f"{{0}} / (1 + np.sum({{0}} * {{0}}, axis={axis}, keepdims=True))",
    )  # fmt: skip
    d.add(d.pick.choice(templates), a)


def product(d: Draft) -> None:
    a = d.choose(lambda x: x.ndim >= 1 and is_number(x) and is_real(x) and _is_modest(x))
    x = d.values[a]
    if x.ndim >= 2 and d.pick.random() < 0.6:
        d.add(
            d.pick.choice(("{0} @ np.swapaxes({0}, -1, -2)", "np.swapaxes({0}, -1, -2) @ {0}")), a
        )
        return

    def fits(y: Array) -> bool:
        extent = y.shape[-2] if y.ndim > 1 else y.shape[0] if y.ndim else None
        return y.dtype == x.dtype and extent == x.shape[-1] and _is_modest(y)

    d.add("{0} @ {1}", a, d.choose(fits))


def attention(d: Draft) -> None:
    """Heads as wide as vectors: a value repeated along its last axis."""
    a = d.choose(lambda x: is_float(x) and x.ndim in (2, 3) and 0 < x.size < 600)
    x = d.values[a]
    b = d.choose(lambda y: y.dtype == x.dtype and _attends(x.shape, y.shape))
    q, k = (f"np.expand_dims(np.tile({{{n}}}, 8), -2)" for n in (0, 1))
    hidden = f"np.arange({d.values[b].shape[-2]}) != 1"
    options = ("", ", is_causal=True", ", scale=0.25", f", mask={hidden}")
    value = d.pick.choice((k, f"np.log({k})", f"np.tanh({k})"))
    d.add(f"nn.dot_product_attention({q}, {k}, {value}{d.pick.choice(options)})", a, b)


def update(d: Draft) -> None:
    a = d.choose(lambda x: x.ndim >= 1 and x.shape[0] > 0 and is_number(x) and is_real(x))
    last = d.values[a].shape[0] - 1
    op = d.pick.choice(("set(0)", "add(1)", "multiply(2)", "max(0)", "min(1)", "set({0}[0])"))
    at = d.pick.choice(("0", f"{last}", "1:", "::2", f"np.array([0, {last}])"))
    d.add(f"{{0}}.at[{at}].{op}", a)


def linear_system(d: Draft) -> None:
    a = d.choose(lambda x: NAMES[x.dtype] in ("f32", "f64") and x.ndim >= 2 and 0 < x.shape[-1] < 9)
    n = d.values[a].shape[-1]
    gram = "np.swapaxes({0}, -1, -2) @ {0} + " + f"{n + 8} * np.eye({n}, dtype={{0}}.dtype)"
    kinds = (
        f"np.linalg.inv({gram})",
        f"np.linalg.cholesky({gram})",
        f"np.linalg.det({gram} * 0.05)",
    )
    d.add(d.pick.choice(kinds), a)


def loop(d: Draft) -> None:
    a = d.choose(lambda x: is_float(x) and 1 <= x.ndim <= 3 and 0 < x.size < 400)
    x, pick = d.values[a], d.pick
    captured = d.choose(lambda y: y.dtype == x.dtype and y.shape == x.shape[1:])
    body, alone, row = like(pick, "c", ["r", "w"]), like(pick, "c", ["w"]), ["r", "w"]
    inner, length, part = expression(pick, row), pick.randint(0, 4), pick.randint(0, 1)
    stacked = pick.choice(("c", "r", "w", "c * r", expression(pick, ["c", *row]), "np.sum(c * r)"))
    step = "c.at[i].set(np.tanh(c[i - 1] + c[i]))"
    templates = (
        f"rlx.scan(lambda c, r, w={{1}}: ({body}, {stacked}), {{1}}, {{0}})[{part}]",
        f"rlx.scan(lambda c, _, w={{0}}: ({alone}, None), {{0}}, None, length={length})[0]",
        f"rlx.map(lambda r, w={{1}}: {inner} + r, {{0}})",
        f"rlx.fori_loop(0, {length}, lambda i, c, w={{0}}: {alone}, {{0}})",
        f"rlx.fori_loop(0, {x.shape[0]}, lambda i, c: {step}, {{0}})",
        f"rlx.cond(np.sum({{0}}) > 0, lambda c: {like(pick, 'c', [])}, lambda c: c * 0.5, {{0}})",
    )
    d.add(pick.choice(templates), a, captured)


def nested_loop(d: Draft) -> None:
    a = d.choose(lambda x: is_float(x) and x.ndim == 2 and 0 < x.size < 200)
    pick = d.pick
    inner = f"rlx.scan(lambda e, s, w=c: ({like(pick, 'e', ['s'])}, e * s), np.sum(c), r)"
    step = f"((c + {inner}[0]) * 0.5, {inner}[1])"
    d.add(f"rlx.scan(lambda c, r: {step}, {{0}}[0], {{0}})[{pick.randint(0, 1)}]", a)


def hermitian(d: Draft) -> None:
    """A decomposition of a complex matrix and its adjoint."""
    a = d.choose(lambda x: is_complex(x) and x.ndim >= 2 and 0 < x.size < 300)
    n = d.values[a].shape[-2]
    gram = f"({{{{0}}}} @ np.conj({{{{0}}}}.mT) + {n + 8} * np.eye({n}, dtype={{{{0}}}}.dtype))"
    d.add(d.pick.choice(templates.HERMITIAN).format(gram=gram.format()), a)


def wider(d: Draft) -> None:
    """A function of the wider library, on an operand that it may take."""
    templates, fits = d.pick.choice(_WIDER)
    a = d.choose(fits)
    x = d.values[a]
    axis = d.pick.randrange(x.ndim) if x.ndim else 0
    extent = x.shape[axis] if x.ndim else 1
    d.add(d.pick.choice(templates).format(axis=axis, n=extent), a)


_WIDER: tuple[tuple[tuple[str, ...], Callable[[Array], bool]], ...] = (
    (templates.FLOATS, is_float),
    (templates.ROWS, lambda x: is_float(x) and has_axis(x) and x.size < 2000),
    (templates.MATRICES, lambda x: is_float(x) and x.ndim >= 2 and 0 < x.size < 2000),
    (templates.VECTORS, lambda x: is_float(x) and x.ndim == 1 and 0 < x.size < 2000),
    (templates.INTEGERS, is_int),
    (templates.COMPLEX, is_complex),
    (templates.SIGNALS, lambda x: has_axis(x) and x.size < 2000 and is_signal(x)),
    (templates.IMAGES, lambda x: is_float(x) and x.ndim == 4 and 0 < x.size < 2000),
    (templates.LAYERS, lambda x: is_float(x) and has_axis(x) and 0 < x.size < 2000),
    (templates.INDICES, lambda x: is_float(x) and x.ndim >= 1 and 0 < x.size < 2000),
    (templates.DECOMPOSITIONS, lambda x: is_matrix(x) and 0 < x.size < 300),
)

_KINDS: tuple[Callable[[Draft], None], ...] = (
    *(unary,) * 5, *(binary,) * 5, mixed, select, select, cast, cast, *(move,) * 5, *(reduce,) * 3,
    rows, rows, product, product, attention, update, linear_system, hermitian, loop, loop,
    nested_loop, *(wider,) * 9,
)  # fmt: skip


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def _attends(queries: tuple[int, ...], keys: tuple[int, ...]) -> bool:
    """True if both have a batch and a width in common, and there are keys."""
    if len(keys) != len(queries) or keys[-2] < 2:
        return False
    return (*queries[:-2], queries[-1]) == (*keys[:-2], keys[-1])


def _is_modest(x: Array) -> bool:
    """True if all numbers are finite and small, so that casts and products mean one thing."""
    if x.dtype.kind in "iub":
        return bool(np.all(np.abs(x.astype(np.float64)) < 100)) if x.size else True
    wide: Any = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return bool(np.all(np.isfinite(wide)) and np.all(np.abs(wide) < 100))
