"""Write PaddleOCR's recognizer as C: `python -m examples.read_text_in_c.export build/read_text`.

    cd build/read_text && cc -std=c11 -O2 read_text.c recognizer.c -lm -o read_text
    ./read_text line.pgm

`recognizer.c` computes the model in one arena, from `recognizer.weights`; `characters.txt` is its
alphabet. `read_text.c` reads a PGM image of a line and prints the text. None needs Python or a
library. The model ships with rapidocr-onnxruntime (`pip install --no-deps rapidocr-onnxruntime`).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import rlx
from examples.read_text import LINE, characters_of, model_path
from rlx.onnx import InferenceSession
from rlx.runtime.aot import Artifact


def export(directory: Path, *, width: int = LINE[1], **options: Any) -> Artifact:
    """Write the artifact, the alphabet and the program; `options` go to `rlx.aot`."""
    path = model_path("recognizer")
    shape = (1, 3, LINE[0], width)
    artifact = rlx.aot(
        path, directory, name="recognizer", dims={"x": shape}, output_names=("scores",), **options
    )
    characters = characters_of(InferenceSession(path))
    text = "".join(f"{character}\n" for character in characters)
    (directory / "characters.txt").write_text(text, encoding="utf-8", newline="\n")
    (directory / "main.c").unlink()  # the sample program; read_text.c takes its place
    shutil.copy(Path(__file__).with_name("read_text.c"), directory)
    return artifact


def main() -> None:
    parser = argparse.ArgumentParser(description="write PaddleOCR's recognizer as C")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--width", type=int, default=LINE[1], help="pixels that a line has at most")
    parser.add_argument("--target", default="portable")
    options = parser.parse_args()
    export(options.directory, width=options.width, target=options.target)


if __name__ == "__main__":
    main()
