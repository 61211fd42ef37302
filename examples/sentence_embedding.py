"""Answer questions by meaning: MiniLM sentence embeddings, compiled to C and to LLVM IR.

    python -m examples.sentence_embedding

Builds the model's graph once, with a sequence length that is known only at the call, compiles
it with both backends, embeds a small corpus and prints the best answers to a few questions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import rlx
from examples.minilm import Array, SentenceTokenizer, build_graph, load_weights

CORPUS = (
    "A compiler translates a program into machine code before it runs.",
    "An interpreter executes a program line by line.",
    "Gradient descent follows the slope of a loss downhill in small steps.",
    "Backpropagation applies the chain rule from the loss back to the weights.",
    "Bread rises because yeast turns sugar into carbon dioxide.",
    "Soda bread needs no yeast: baking soda and buttermilk make it rise.",
    "The heart pumps blood through arteries and veins.",
    "Honey bees tell each other where flowers are by dancing.",
    "The tides follow the moon's pull on the oceans.",
    "A solar eclipse happens when the moon passes between the earth and the sun.",
    "Basalt forms when lava cools quickly at the surface.",
    "The violin is tuned in fifths: G, D, A and E.",
)
QUESTIONS = (
    "How do I bake a loaf without yeast?",
    "How does a neural network learn its weights?",
    "Why does the sea rise and fall twice a day?",
    "What turns source code into instructions for the processor?",
)


@dataclass(frozen=True)
class Run:
    """What one backend did."""

    backend: str
    compile_seconds: float
    sentence_seconds: float
    embeddings: Array
    questions: Array


def embed(model: rlx.Executable, sentences: Sequence[str]) -> Array:
    """Embed sentences one at a time, each at its own length."""
    tokenizer = SentenceTokenizer()
    rows = []
    for sentence in sentences:
        batch = tokenizer([sentence])
        (row,) = model(ids=batch.ids, mask=batch.mask)
        rows.append(row[0])
    return np.stack(rows)


def run_backend(backend: str, weights: dict[str, Array]) -> tuple[Run, rlx.Executable]:
    started = time.perf_counter()
    model = rlx.compile(build_graph(), backend=backend, params=weights)
    assert isinstance(model, rlx.Executable), "no backend is the reference"
    compiled = time.perf_counter()
    embed(model, CORPUS[:1])  # the first call runs setup: weights are packed once
    warm = time.perf_counter()
    embeddings = embed(model, CORPUS)
    seconds = (time.perf_counter() - warm) / len(CORPUS)
    return Run(backend, compiled - started, seconds, embeddings, embed(model, QUESTIONS)), model


def print_answers(console: Console, run: Run) -> None:
    table = Table("question", "best answer", "similarity")
    for question, vector in zip(QUESTIONS, run.questions, strict=True):
        scores = run.embeddings @ vector
        best = int(np.argmax(scores))
        table.add_row(question, CORPUS[best], f"{scores[best]:.3f}")
    console.print(table)


def print_costs(console: Console, runs: Sequence[Run]) -> None:
    table = Table("backend", "compile (or load from cache)", "per sentence")
    for run in runs:
        sentence = f"{run.sentence_seconds * 1e3:.2f} ms"
        table.add_row(run.backend, f"{run.compile_seconds:.2f} s", sentence)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/minilm"))
    output: Path = parser.parse_args().output
    console = Console()
    weights = load_weights()
    runs = []
    for backend in track(("c", "llvm"), "Compiling MiniLM", console=console, transient=True):
        run, model = run_backend(backend, weights)
        runs.append(run)
        if backend == "c":
            output.mkdir(parents=True, exist_ok=True)
            (output / "minilm.c").write_text(model.c_source)
    print_answers(console, runs[0])
    print_costs(console, runs)
    worst = float(np.abs(runs[0].embeddings - runs[1].embeddings).max())
    console.print(f"The backends differ by at most {worst:.1e}.")
    console.print(f"The generated C: {output / 'minilm.c'}")


if __name__ == "__main__":
    main()
