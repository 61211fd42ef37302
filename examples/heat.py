"""Find where heat was put, from where it ended up: a 2-D equation split over ranks.

    mpirun -n 2 python -m examples.heat [--output build]

Each rank has some rows of the plate. A step exchanges the rows at the borders with the
neighbors; one compiled function runs all steps, the distance to what was measured, and its
gradient back through all exchanges. Gradient descent finds the first temperature. The picture
shows what was put in, what was measured, and what was found.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

import rlx
import rlx.numpy as rnp
from rlx.distributed import Mesh, P, Sharded, initialize, shard_map

STEPS = 60
RATE = 0.2
"""Share of the difference to its neighbors that a point gives away in a step; stable to 0.25."""
DESCENT = 200
Array = NDArray[Any]


def first_temperature(side: int = 64) -> Array:
    """Return a cold plate with a hot disk, a bar and a ring."""
    y, x = np.mgrid[:side, :side] / side
    disk = np.hypot(x - 0.3, y - 0.3) < 0.09
    ring = abs(np.hypot(x - 0.68, y - 0.64) - 0.16) < 0.03
    bar = (abs(y - 0.8) < 0.03) & (abs(x - 0.28) < 0.18)
    plate: Array = (disk | ring | bar).astype(np.float32)
    return plate


def laplacian(u: Any) -> Any:
    """Return for each point how far its four neighbors are above it; the edges are insulated."""
    n = rlx.distributed.axis_size("rows")
    down, up = [(i, i + 1) for i in range(n - 1)], [(i + 1, i) for i in range(n - 1)]
    index = rlx.distributed.axis_index("rows")
    above = rnp.where(index == 0, u[:1], rlx.distributed.ppermute(u[-1:], "rows", down))
    below = rnp.where(index == n - 1, u[-1:], rlx.distributed.ppermute(u[:1], "rows", up))
    rows = rnp.concatenate([above, u, below])
    tall = rows[2:] + rows[:-2] - 2.0 * u
    columns = rnp.concatenate([u[:, :1], u, u[:, -1:]], 1)
    return tall + columns[:, 2:] + columns[:, :-2] - 2.0 * u


def spread(u: Any) -> Any:
    """Return the temperature after all steps."""
    return rlx.fori_loop(0, STEPS, lambda _, v: v + RATE * laplacian(v), u)


def descend(u: Any, measured: Any) -> tuple[Any, Any]:
    """Return a better first temperature, and the squared distance of the one given."""

    def distance(v: Any) -> Any:
        return rnp.sum((spread(v) - measured) ** 2)

    value, slope = rlx.value_and_grad(distance)(u)
    return rnp.maximum(u - 0.45 * slope, 0.0), rlx.distributed.psum(value, "rows")


def find(measured: Array, mesh: Mesh) -> tuple[Array, list[float]]:
    """Return the first temperature that leads to `measured`, and the distance at each step."""
    rows = P("rows")
    step = shard_map(descend, mesh, (rows, rows), (rows, P()), threads=1)
    found: Any = np.zeros_like(measured)
    distances = []
    for _ in track(range(DESCENT), "descending", disable=mesh.world.rank != 0):
        found, distance = step(found, measured)
        distances.append(float(distance))
    assert isinstance(found, Sharded)
    return found.gather(), distances


def draw(panels: dict[str, Array], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(4 * len(panels), 4))
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        axis.imshow(panel, cmap="inferno", vmin=0.0)
        axis.set(title=title, xticks=[], yticks=[])
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, metavar="DIRECTORY")
    arguments = parser.parse_args()
    world = initialize()
    mesh = Mesh({"rows": world.size})
    first = first_temperature()
    spreading: Any = shard_map(spread, mesh, P("rows"), P("rows"), threads=1)(first)
    measured = spreading.gather()
    found, distances = find(measured, mesh)
    if world.rank:
        return
    error = np.linalg.norm(found - first) / np.linalg.norm(first)
    print(f"distance {distances[0]:.4f} to {distances[-1]:.2e}, found to {error:.1%}")
    if arguments.output is not None:
        panels = {"put in": first, "measured": measured, "found": found}
        draw(panels, arguments.output / "heat.png")
        print(f"drawn in {arguments.output / 'heat.png'}")


if __name__ == "__main__":
    main()
