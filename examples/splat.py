"""Fit a scene of Gaussians to photographs, and draw it: `python -m examples.splat`.

    python -m examples.splat [--steps N] [--output DIR] [--export DIR]
    python -m examples.splat --ply FILE [--output DIR]         draws a scene of one's own

Forty photographs of a small world (`splat_world`, a ray tracer) are taken on an orbit. Splats are
fitted to 32 of them by gradient descent; one compiled step draws, differentiates and applies Adam.
In between, splats that see little are taken away and put where the gradient is largest. The other
8 photographs say how good the scene is. It is written as `scene.ply`, for any viewer of splats.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import rlx
import rlx.numpy as rnp
from examples.splat_world import SKY, TARGET, orbit, photograph
from rlx.runtime.aot import Artifact
from rlx.splat import Scene, camera, linear_to_display, read_ply, render, write_ply

Array = NDArray[Any]
Params = dict[str, Any]

SIZE = {"width": 128, "height": 96}
FOV = 45.0
VIEWS, EVERY_FIFTH = 40, 5
SPLATS, STEPS = 3000, 3000
DENSIFY_EVERY, DENSIFY_UNTIL = 150, 0.6
C0 = 0.28209479177387814
RATES = {"positions": 2e-3, "scales": 8e-3, "rotations": 4e-3, "opacities": 3e-2, "base": 1e-2}
FAINT = 0.02
"""Opacity below which a splat is taken away."""
ROOM = 40
"""List entries for each splat."""


@dataclass(frozen=True)
class Views:
    """Cameras with their photographs."""

    cameras: Array
    images: Array

    def part(self, chosen: Array) -> Views:
        return Views(self.cameras[chosen], self.images[chosen])


@dataclass(frozen=True)
class Fit:
    """What fitting gave."""

    scene: Scene
    psnr: list[float]
    """Of each view held out."""
    seconds: float
    losses: list[float]


def take_photographs(count: int = VIEWS) -> tuple[Views, Views]:
    """Return the views to fit and those held out, every fifth."""
    positions = orbit(count)
    cameras = np.stack([camera(p, TARGET, fov=FOV, background=SKY) for p in positions])
    images = [photograph(p, SIZE["width"], SIZE["height"], FOV) for p in positions]
    views = Views(cameras, np.stack(images).astype(np.float32))
    held_out = np.arange(count) % EVERY_FIFTH == 0
    return views.part(~held_out), views.part(held_out)


def first_guess(splats: int) -> Params:
    """Return grey splats anywhere in the world; the second half of them is not there yet."""
    random = np.random.default_rng(0)
    logit = np.where(np.arange(splats) < splats // 2, -1.0, -20.0)
    params = {
        "positions": random.uniform([-1.8, -0.1, -1.8], [1.8, 1.2, 1.8], (splats, 3)),
        "scales": np.full((splats, 3), np.log(0.07)),
        "rotations": np.tile([1.0, 0.0, 0.0, 0.0], (splats, 1)),
        "opacities": logit,
        "base": random.uniform(-0.3, 0.3, (splats, 1, 3)),
    }
    return {name: value.astype(np.float32) for name, value in params.items()}


def scene_of(params: Params) -> Scene:
    """Return the splats of unconstrained params."""
    length = rnp.sqrt(rnp.sum(params["rotations"] ** 2, axis=1, keepdims=True) + 1e-12)
    return Scene(
        positions=params["positions"],
        scales=params["scales"],
        rotations=params["rotations"] / length,
        opacities=rlx.nn.sigmoid(params["opacities"]),
        colors=rnp.zeros(params["positions"].shape, "f32"),
        harmonics=params["base"],
    )


def shown(params: Params, view: Any) -> Any:
    """Return the image as displays show it."""
    room = ROOM * params["positions"].shape[0]
    image = render(scene_of(params), view, **SIZE, max_list_entries=room)
    return rnp.maximum(image[:, :, :3], 1e-6) ** (1.0 / 2.2)


def loss(params: Params, view: Any, target: Any) -> Any:
    """Mean of squared and absolute differences, as displays show them."""
    difference = shown(params, view) - target
    return rnp.mean(rnp.abs(difference)) * 0.5 + rnp.mean(difference**2)


def make_step(steps: int, backend: str = "auto") -> tuple[Any, Any]:
    """Return a compiled step of Adam, with a rate for each kind of param, and its first state."""
    decay = {name: 0.05 if name == "positions" else 0.2 for name in RATES}
    rules = {
        name: rlx.optim.adam(rlx.optim.exponential_decay(rate, steps, decay[name]))
        for name, rate in RATES.items()
    }

    def step(params: Params, state: Any, need: Any, view: Any, target: Any) -> Any:
        value, gradients = rlx.value_and_grad(loss)(params, view, target)
        moved = {n: rules[n].update(gradients[n], state[n], params[n]) for n in rules}
        need = need + rnp.sqrt(rnp.sum(gradients["positions"] ** 2, axis=1))
        following = rlx.optim.apply_updates(params, {name: pair[0] for name, pair in moved.items()})
        return following, {name: pair[1] for name, pair in moved.items()}, need, value

    def first_state(params: Params) -> Any:
        return {name: rules[name].init(params[name]) for name in rules}

    return rlx.jit(step, donate_argnums=(0, 1, 2), backend=backend), first_state


def densify(params: Params, state: Any, need: Array, random: np.random.Generator) -> None:
    """Move invisible splats to where the gradient is largest, halves of what was there."""
    opacity = 1.0 / (1.0 + np.exp(-params["opacities"]))
    large = np.exp(params["scales"]).max(1) > 1.0
    free = np.flatnonzero((opacity < FAINT) | large)
    order = np.argsort(-np.where(opacity >= FAINT, need, 0.0))
    count = min(len(free), len(order) // 8)
    parents, children = order[:count], free[:count]
    for name, value in params.items():
        value[children] = value[parents]
        moments = state[name][0]
        moments.mu[children] = moments.nu[children] = 0.0
    spread = np.exp(params["scales"][parents])
    offset = random.standard_normal((count, 3)) * spread
    params["positions"][children] += offset.astype(np.float32)
    for either in (parents, children):
        params["scales"][either] -= np.log(1.4).astype(np.float32)
    rest = free[count:]
    params["opacities"][rest] = -20.0


def fit(train: Views, test: Views, *, splats: int = SPLATS, steps: int = STEPS,
        quiet: bool = False) -> Fit:  # fmt: skip
    """Fit a scene to photographs."""
    random = np.random.default_rng(1)
    params = first_guess(splats)
    step, first_state = make_step(steps)
    state, need = first_state(params), np.zeros(splats, np.float32)
    losses, started = [], time.perf_counter()
    with _bar(quiet) as bar:
        task = bar.add_task("fitting", total=steps)
        for number in range(steps):
            if number % len(train.images) == 0:
                order = random.permutation(len(train.images))
            pick = order[number % len(order)]
            params, state, need, value = step(
                params, state, need, train.cameras[pick], train.images[pick]
            )
            losses.append(float(value))
            if (number + 1) % DENSIFY_EVERY == 0 and number < DENSIFY_UNTIL * steps:
                params, state, need = (_writable(tree) for tree in (params, state, need))
                densify(params, state, need, random)
                need = np.zeros(splats, np.float32)
            bar.update(task, advance=1)
    seconds = time.perf_counter() - started
    params = _writable(params)
    return Fit(drawable(params), psnr(params, test), seconds, losses)


def _writable(tree: Any) -> Any:
    return rlx.tree_map(lambda x: np.array(x), tree)


def _bar(quiet: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeElapsedColumn(), console=Console(quiet=quiet))


def drawable(params: Params) -> Scene:
    """Return the scene as arrays, without the splats that are not there."""
    scene = rlx.jit(scene_of)(params)
    there = np.asarray(scene.opacities) >= FAINT
    return Scene(*(np.asarray(getattr(scene, name))[there] for name in Scene.__dataclass_fields__))


def psnr(params: Params, views: Views) -> list[float]:
    """Return the peak signal-to-noise ratio of each view, in decibels."""
    draw = rlx.jit(shown)
    errors = [
        np.mean((np.clip(np.asarray(draw(params, view)), 0, 1) - image) ** 2)
        for view, image in zip(views.cameras, views.images, strict=True)
    ]
    return [float(-10.0 * np.log10(error)) for error in errors]


def painter(scene: Scene, width: int, height: int) -> Any:
    """Return a function from cameras to pictures of bytes."""

    def draw(given: Scene, view: Any) -> Any:
        image = render(given, view, width=width, height=height, max_list_entries=room)
        return rnp.round(255.0 * linear_to_display(image[:, :, :3]))

    room = max(ROOM * len(scene), 4096)
    compiled = rlx.jit(draw)
    return lambda view: np.asarray(compiled(scene, view)).astype(np.uint8)


def save_pictures(directory: Path, scene: Scene, test: Views, views: int = 72) -> None:
    """Write the views held out as rows of photograph, fit and difference, and a turntable."""
    from PIL import Image

    draw = painter(scene, **SIZE)
    rows = []
    for view, image in zip(test.cameras[:3], test.images[:3], strict=True):
        photo, found = np.round(255 * image).astype(np.uint8), draw(view)
        apart = np.abs(photo.astype(int) - found) * 4
        rows.append(np.concatenate([photo, found, np.minimum(apart, 255).astype(np.uint8)], 1))
    Image.fromarray(np.concatenate(rows)).save(directory / "held_out.png")
    positions = orbit(views)
    positions[:, 1] = 1.9
    turntable(directory / "turntable.gif", scene, positions, TARGET, SKY)


def turntable(path: Path, scene: Scene, positions: Array, target: Array, sky: Array) -> None:
    """Write an animated picture of the scene seen from `positions` in turn."""
    from PIL import Image

    draw = painter(scene, 2 * SIZE["width"], 2 * SIZE["height"])
    views = [camera(p, target, fov=FOV, background=sky) for p in positions]
    first, *others = [Image.fromarray(draw(view)) for view in views]
    first.save(path, save_all=True, append_images=others, duration=60, loop=0)


def draw_file(path: Path, directory: Path, views: int = 48) -> None:
    """Draw a scene of one's own: a picture and a turntable."""
    scene = read_ply(path)
    middle = np.median(scene.positions, axis=0)
    away = 2.5 * np.percentile(np.linalg.norm(scene.positions - middle, axis=1), 80)
    angle = 2.0 * np.pi * np.arange(views) / views
    around = np.stack([np.cos(angle), np.full(views, 0.35), np.sin(angle)], -1)
    turntable(directory / "turntable.gif", scene, middle + away * around, middle, np.zeros(3))
    print(f"{len(scene)} splats of {path}: {directory / 'turntable.gif'}")


def export(directory: Path, splats: int, *, emit_only: bool = False) -> Artifact:
    """Write the fitting step as C; `splat_in_c.export` writes a renderer."""
    step, first_state = make_step(STEPS)
    params = first_guess(splats)
    view, image = np.zeros(23, np.float32), np.zeros((SIZE["height"], SIZE["width"], 3), np.float32)
    need = np.zeros(splats, np.float32)
    artifact = rlx.aot(
        step, directory, name="splat_step", target="portable",
        example_inputs=(params, first_state(params), need, view, image), output_names=("loss",),
        emit_only=emit_only,
    )  # fmt: skip
    print(f"the fitting step of {splats} splats is in {directory}")
    return artifact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--splats", type=int, default=SPLATS)
    parser.add_argument("--output", type=Path, default=Path("."), help="where pictures go")
    parser.add_argument("--ply", type=Path, help="draw this scene instead of fitting one")
    parser.add_argument("--export", type=Path, help="write the fitting step as C")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.ply:
        draw_file(options.ply, options.output)
        return
    if options.export:
        export(options.export, options.splats)
        return
    train, test = take_photographs()
    found = fit(train, test, splats=options.splats, steps=options.steps)
    write_ply(options.output / "scene.ply", found.scene)
    save_pictures(options.output, found.scene, test)
    per_step = 1e3 * found.seconds / options.steps
    print(f"{len(found.scene)} splats, {options.steps} steps in {found.seconds:.0f} s "
          f"({per_step:.1f} ms each)")  # fmt: skip
    print(f"held-out views: {np.mean(found.psnr):.2f} dB (worst {min(found.psnr):.2f} dB)")


if __name__ == "__main__":
    main()
