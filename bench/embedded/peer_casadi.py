"""The small programs as C by CasADi, in f32: its own functions, derivatives and solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from bench.embedded.control import policy_weights
from examples.microcontroller.run import weights


def layer(x: Any, w: Any, b: Any) -> Any:
    return ca.mtimes(w.T, x) + b


def network(params: Mapping[str, Any], x: Any) -> Any:
    for number in (1, 2):
        x = ca.fmax(layer(x, params[f"w{number}"], params[f"b{number}"]), 0)
    return layer(x, params["w3"], params["b3"])


def mlp() -> Any:
    params = {name: ca.DM(array.astype(float)) for name, array in weights().items()}
    x = ca.MX.sym("x", 16)
    return ca.Function("net", [x], [network(params, x)])


def training_step() -> Any:
    params = {n: ca.MX.sym(n, *a.shape) for n, a in weights().items()}
    x, y = ca.MX.sym("x", 16), ca.MX.sym("y", 4)
    loss = ca.sumsqr(network(params, x) - y) / 4
    slopes = [ca.gradient(loss, p) for p in params.values()]
    stepped = [p - 0.1 * slope for p, slope in zip(params.values(), slopes, strict=True)]
    return ca.Function("net", [*params.values(), x, y], [*stepped, loss])


def scan_gradient() -> Any:
    state, x, w = ca.MX.sym("state", 4), ca.MX.sym("x", 4), ca.MX.sym("w", 4, 4)
    step = ca.Function("step", [state, x, w], [ca.tanh(ca.mtimes(w.T, state) + x)])
    xs = ca.MX.sym("xs", 4, 32)
    states = step.mapaccum(32)(ca.DM.zeros(4), xs, ca.repmat(w, 1, 32))
    return ca.Function("net", [w, xs], [ca.gradient(ca.sum1(ca.sum2(states)), w)])


def solve_3x3() -> Any:
    a, b = ca.SX.sym("a", 3, 3), ca.SX.sym("b", 3)
    return ca.Function("one", [a, b], [ca.solve(a, b)]).map(16)


def attention() -> Any:
    q, k, v = (ca.MX.sym(name, 16, extent) for name, extent in (("q", 1), ("k", 16), ("v", 16)))
    scores = ca.mtimes(k.T, q) * 0.25
    row = ca.Function("row", [q, k, v], [ca.mtimes(v, ca.exp(scores - ca.logsumexp(scores)))])
    head = row.map(16)
    operands = [ca.MX.sym(name, 16, 32) for name in "qkv"]
    halves = [ca.horzsplit(operand, 16) for operand in operands]
    heads = [
        head(q, ca.repmat(k, 1, 16), ca.repmat(v, 1, 16)) for q, k, v in zip(*halves, strict=True)
    ]
    return ca.Function("net", operands, [ca.horzcat(*heads)])


def policy() -> Any:
    params = {name: ca.DM(array.astype(float)) for name, array in policy_weights().items()}
    x = ca.SX.sym("x", 4)
    return ca.Function("net", [x], [network(params, x)])


def dynamics(x: Any, u: Any) -> Any:
    s, c = ca.sin(x[2]), ca.cos(x[2])
    push = (u + 0.05 * x[3] * x[3] * s) / 1.1
    turn = (9.81 * s - c * push) / (0.5 * (4.0 / 3.0 - 0.1 * c * c / 1.1))
    return x + 0.01 * ca.vertcat(x[1], push - 0.05 * turn * c / 1.1, x[3], turn)


def kalman_filter() -> Any:
    x, u, z = ca.SX.sym("x", 4), ca.SX.sym("u"), ca.SX.sym("z", 2)
    p, q, r = ca.SX.sym("p", 4, 4), ca.SX.sym("q", 4, 4), ca.SX.sym("r", 2, 2)
    ahead = dynamics(x, u)
    f = ca.jacobian(ahead, x)
    spread = f @ p @ f.T + q
    seen = ca.vertcat(x[0], ca.sin(x[2]))
    h = ca.substitute(ca.jacobian(seen, x), x, ahead)
    seen = ca.substitute(seen, x, ahead)
    k = ca.solve(h @ spread @ h.T + r, h @ spread).T
    i = ca.SX.eye(4) - k @ h
    after = [ahead + k @ (z - seen), i @ spread @ i.T + k @ r @ k.T]
    return ca.Function("net", [x, p, u, z, q, r], after)


def rigid_body(x: Any, u: Any) -> Any:
    s, t, w, c, d, v = (f(x[i]) for f in (ca.sin, ca.cos) for i in (6, 7, 8))
    p, q, r = x[9], x[10], x[11]
    lift = u[0] / 1.5
    push = [(c * t * v + s * w) * lift, (c * t * w - s * v) * lift, c * d * lift - 9.81]
    turn = [p + (s * q + c * r) * t / d, c * q - s * r, (s * q + c * r) / d]
    spin = [(u[1] - 0.02 * q * r) / 0.03, (u[2] + 0.02 * p * r) / 0.03, u[3] / 0.05]
    return x + 0.01 * ca.vertcat(x[3:6], *push, *turn, *spin)


def body_filter() -> Any:
    x, u, z = ca.SX.sym("x", 12), ca.SX.sym("u", 4), ca.SX.sym("z", 3)
    p, q, r = ca.SX.sym("p", 12, 12), ca.SX.sym("q", 12, 12), ca.SX.sym("r", 3, 3)
    ahead = rigid_body(x, u)
    f = ca.jacobian(ahead, x)
    spread = f @ p @ f.T + q
    h = ca.jacobian(x[:3], x)
    k = ca.solve(h @ spread @ h.T + r, h @ spread).T
    i = ca.SX.eye(12) - k @ h
    after = [ahead + k @ (z - ahead[:3]), i @ spread @ i.T + k @ r @ k.T]
    return ca.Function("net", [x, p, u, z, q, r], after)


PROGRAMS: Mapping[str, Callable[[], Any]] = {
    **{f.__name__: f for f in (mlp, training_step, scan_gradient, solve_3x3, attention)},
    "policy": policy,
    "kalman_filter": kalman_filter,
    "finite_filter": kalman_filter,
    "body_filter": body_filter,
    "finite_body_filter": body_filter,
}


def write(name: str, directory: Path) -> Path:
    """Write the program, with its memory, as one file of C.

    Inputs and results are visible outside of the file, so that all of them are computed.
    """
    function = PROGRAMS[name]()
    given = [int(np.prod(function.size_in(i))) for i in range(function.n_in())]
    results = [int(np.prod(function.size_out(i))) for i in range(function.n_out())]
    generator = ca.CodeGenerator("peer.c", {"casadi_real": "float", "casadi_int": "int"})
    generator.add(function)
    generator.generate(f"{directory}/")
    path = directory / "peer.c"
    lines = [f"float in{i}[{size}];" for i, size in enumerate(given)]
    lines += [f"float out{i}[{size}];" for i, size in enumerate(results)]
    lines.append(f"static float work[{max(function.sz_w(), 1)}];")
    lines.append(f"static int words[{max(function.sz_iw(), 1)}];")
    lines.append("void fill_inputs(void) {")
    lines += [
        f"  for (int i = 0; i < {size}; ++i) in{n}[i] = (float)(i % 7) / 7 + (i % 4 == 0 ? 2 : 0);"
        for n, size in enumerate(given)
    ]
    ins = ", ".join(f"in{i}" for i in range(len(given)))
    outs = ", ".join(f"out{i}" for i in range(len(results)))
    lines += ["}", "void run_once(void) {"]
    lines.append(f"  const float *arg[{function.sz_arg()}] = {{{ins}}};")
    lines.append(f"  float *res[{function.sz_res()}] = {{{outs}}};")
    lines += [f"  {function.name()}(arg, res, words, work, 0);", "}"]
    # CasADi calls functions of doubles, whatever its numbers are.
    single = "".join(f"#define {name} {name}f\n" for name in ("sin", "cos", "tanh", "exp", "log"))
    path.write_text(f"#include <math.h>\n{single}" + path.read_text() + "\n".join(lines) + "\n")
    return path
