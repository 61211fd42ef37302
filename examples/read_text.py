"""Read the text in a picture: PaddleOCR's three models, from their ONNX files.

    python -m examples.read_text [picture.png] [--output DIR]

The models ship with rapidocr-onnxruntime (`pip install --no-deps rapidocr-onnxruntime`). The
detector marks where text is; every line that it finds is cut out and turned upright, as the
classifier says, and the recognizer spells it. Without a picture, one is drawn. Each model is
compiled once for each size that it is given; lines have one.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from examples.packaged import package_directory
from rlx.onnx import InferenceSession

Array = NDArray[Any]

SAMPLE = ("A small ML compiler:", "any model in,", "one C file out.")
STEP = 32
"""The detector halves a picture five times."""
LINE = (48, 320)
"""Height and width of the lines that the recognizer is given."""
SHORT_LINE = (48, 192)
"""Height and width of the lines that the classifier is given."""
FILES = {
    "detector": "ch_PP-OCRv4_det_infer.onnx",
    "classifier": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "recognizer": "ch_PP-OCRv4_rec_infer.onnx",
}


@dataclass(frozen=True)
class Box:
    """A rectangle of pixels."""

    left: int
    top: int
    right: int
    bottom: int


def model_path(part: str) -> Path:
    """Return where the package keeps a model."""
    return (
        package_directory("rapidocr_onnxruntime", "rapidocr-onnxruntime") / "models" / FILES[part]
    )


def drawn_sample() -> Image.Image:
    """Return a picture of a few lines."""
    picture = Image.new("RGB", (384, 192), "white")
    draw = ImageDraw.Draw(picture)
    for number, line in enumerate(SAMPLE):
        draw.text((24, 18 + 54 * number), line, "black", ImageFont.load_default(size=32))
    return picture


def normalized(picture: Image.Image) -> Array:
    """Return pixels in [-1, 1] as `[1, 3, height, width]`."""
    pixels = np.asarray(picture.convert("RGB"), np.float32) / 255
    return np.ascontiguousarray(((pixels - 0.5) / 0.5).transpose(2, 0, 1)[None])


def find_lines(detector: InferenceSession, picture: Image.Image) -> list[Box]:
    """Return the boxes around lines of text, from top to bottom."""
    width, height = (-(-extent // STEP) * STEP for extent in picture.size)
    padded = Image.new("RGB", (width, height), "white")
    padded.paste(picture)
    (scores,) = detector.run(None, {"x": normalized(padded)})
    boxes = (grown(box, picture.size) for box in components(scores[0, 0] > 0.3))
    return sorted(boxes, key=lambda box: (box.top, box.left))


def components(mask: Array) -> list[Box]:
    """Return the bounding boxes of connected regions of a mask."""
    labels = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    while True:  # every pixel takes the largest label around it
        around = np.pad(labels, 1)
        spread = np.max([around[1:-1, 1:-1], around[:-2, 1:-1], around[2:, 1:-1],
                         around[1:-1, :-2], around[1:-1, 2:]], axis=0)  # fmt: skip
        spread = np.where(mask, spread, 0)
        if np.array_equal(spread, labels):
            break
        labels = spread
    found = []
    for label in np.unique(labels[labels > 0]):
        rows, columns = np.nonzero(labels == label)
        if rows.size > 20:
            found.append(Box(int(columns.min()), int(rows.min()), int(columns.max()) + 1,
                             int(rows.max()) + 1))  # fmt: skip
    return found


def grown(box: Box, size: tuple[int, int]) -> Box:
    """Return a box with the margin that the detector was trained to leave out."""
    width, height = box.right - box.left, box.bottom - box.top
    margin = round(1.6 * width * height / (2 * (width + height)))
    return Box(
        max(box.left - margin, 0), max(box.top - margin, 0),
        min(box.right + margin, size[0]), min(box.bottom + margin, size[1]),
    )  # fmt: skip


def cut(picture: Image.Image, box: Box) -> Image.Image:
    """Return the part of a picture in a box."""
    return picture.crop((box.left, box.top, box.right, box.bottom))


def upright(classifier: InferenceSession, line: Image.Image) -> Image.Image:
    """Return a line, turned around if it is upside down."""
    (scores,) = classifier.run(None, {"x": line_pixels(line, SHORT_LINE)})
    return line.rotate(180) if scores[0, 1] > 0.9 else line


def line_pixels(line: Image.Image, size: tuple[int, int] = LINE) -> Array:
    """Return a line, scaled to the height that a model takes and padded to its width."""
    height, width = size
    scaled = line.resize((min(round(line.width * height / line.height), width), height))
    pixels = np.zeros((1, 3, height, width), np.float32)
    pixels[..., : scaled.width] = normalized(scaled)
    return pixels


def spelled(scores: Array, characters: list[str]) -> str:
    """Return the text of a row of scores: repeats are one, and class 0 is a gap."""
    best = scores.argmax(axis=-1)
    changed = np.diff(best, prepend=0) != 0
    return "".join(characters[c - 1] for c in best[changed & (best > 0)])


def characters_of(recognizer: InferenceSession) -> list[str]:
    """Return the alphabet in the model's metadata, and the space."""
    return [*recognizer.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]


def read_text(picture: Image.Image, threads: int | None = None) -> list[tuple[Box, str]]:
    """Return the lines in a picture."""
    detector, classifier, recognizer = (
        InferenceSession(model_path(part), threads=threads) for part in FILES
    )
    characters = characters_of(recognizer)
    found = []
    for box in find_lines(detector, picture):
        line = upright(classifier, cut(picture, box))
        (scores,) = recognizer.run(None, {"x": line_pixels(line)})
        found.append((box, spelled(scores[0], characters)))
    return found


def marked(picture: Image.Image, lines: list[tuple[Box, str]]) -> Image.Image:
    """Return the picture with the boxes found."""
    copy = picture.convert("RGB")
    draw = ImageDraw.Draw(copy)
    for box, text in lines:
        draw.rectangle((box.left, box.top, box.right, box.bottom), outline="crimson", width=2)
        draw.text((box.left, max(box.top - 12, 0)), text, "crimson")
    return copy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--output", type=Path, help="folder for the picture with the boxes")
    arguments = parser.parse_args()
    picture = Image.open(arguments.picture) if arguments.picture else drawn_sample()
    lines = read_text(picture.convert("RGB"))
    for _, text in lines:
        print(text)
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        marked(picture, lines).save(arguments.output / "read_text.png")


if __name__ == "__main__":
    main()
