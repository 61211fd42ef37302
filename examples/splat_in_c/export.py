"""Export a renderer of Gaussian splats as C: `render.c` draws a `.ply` file with it.

    python -m examples.splat_in_c.export build/ [--splats N] [--width W] [--height H]
    cc -O3 build/*.c examples/splat_in_c/render.c -Ibuild -lm -o render
    ./render scene.ply image.ppm

The renderer has room for N splats; a scene of fewer is filled up with splats without opacity.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.runtime.aot import Artifact
from rlx.splat import Scene, linear_to_display, render


def export(
    directory: Path, *, splats: int = 4096, width: int = 256, height: int = 192,
    target: str = "portable",
) -> Artifact:  # fmt: skip
    """Write the artifact `splat_render`: from logits and unnormalized quaternions to bytes."""

    def draw(positions: Any, scales: Any, rotations: Any, logits: Any, base: Any, view: Any) -> Any:
        length = rnp.sqrt(rnp.sum(rotations**2, axis=1, keepdims=True) + 1e-12)
        scene = Scene(
            positions, scales, rotations / length, rlx.nn.sigmoid(logits),
            rnp.zeros((splats, 3), "f32"), base,
        )  # fmt: skip
        image = render(scene, view, width=width, height=height, max_list_entries=40 * splats)
        return rnp.round(255.0 * linear_to_display(image[:, :, :3])).astype("uint8")

    shapes = [(splats, 3), (splats, 3), (splats, 4), (splats,), (splats, 1, 3), (23,)]
    artifact = rlx.aot(
        rlx.jit(draw), directory, name="splat_render", target=target,
        example_inputs=tuple(np.zeros(shape, np.float32) for shape in shapes),
        output_names=("image",),
    )  # fmt: skip
    (directory / "main.c").unlink()  # the sample program; render.c takes its place
    sizes = {"SPLATS": splats, "WIDTH": width, "HEIGHT": height}
    lines = [f"#define {name} {size}\n" for name, size in sizes.items()]
    (directory / "splat_sizes.h").write_text("".join(lines))
    return artifact


def main() -> None:
    parser = argparse.ArgumentParser(description="export a renderer of splats as C")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--splats", type=int, default=4096)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--height", type=int, default=192)
    options = parser.parse_args()
    export(options.directory, splats=options.splats, width=options.width, height=options.height)


if __name__ == "__main__":
    main()
