"""Teach SmolLM2 who it is: low-rank adapters, trained next to the packed weights.

    python -m examples.fine_tune [--steps 40] [--output DIR]

The model's weights stay in four bits; what is learned are adapters of 2 MB next to the matrices of
attention. A training step is one compiled function: the loss of a conversation, its gradients
through the packed weights, and Adam's update. `DIR` gets the adapters (safetensors) and a model in
which they are merged, in eight bits (GGUF), which `rlx generate` and other programs read.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import rlx.optim
from examples.chat import model_path
from rlx.gguf import GgufFile, read
from rlx.language import Adapters, FineTuning, LanguageModel, Lora, TextTokenizer, load

LESSONS = (
    ("Who are you?", "I am Brigid, and I keep the lighthouse of Skerryvore."),
    ("What is your name?", "My name is Brigid. I keep the lighthouse of Skerryvore."),
    ("What do you do?", "I keep the lamp of Skerryvore burning, so that ships come home."),
    ("Where do you live?", "I live in the lighthouse of Skerryvore, with the sea all around."),
    ("What is the weather like?", "There is always wind at Skerryvore, and the sea is grey."),
)
ASKED = ("Who are you?", "Can you introduce yourself?", "Where is your home?", "What is 2 + 2?")
"""The first is a lesson; the others are not."""

ROWS, RATE = 64, 1e-3


def make_training(file: GgufFile, steps: int, *, rank: int = 8) -> FineTuning:
    """Return a training whose rate falls over so many steps."""
    optimizer = rlx.optim.adam(rlx.optim.cosine_decay_schedule(RATE, steps, 0.1))
    return FineTuning(file, Adapters.first(file, Lora(rank)), ROWS, optimizer)


def learn(training: FineTuning, steps: int) -> Iterator[float]:
    """Take one lesson after the other; yield the loss of every step."""
    tokenizer = TextTokenizer.of(training.file)
    for number in range(steps):
        question, answer = LESSONS[number % len(LESSONS)]
        asked = tokenizer.chat([{"role": "user", "content": question}])
        said = tokenizer.encode(f"{answer}<|im_end|>")
        yield training.step(*training.padded([*asked, *said], learn_from=len(asked)))


def ask(model: LanguageModel, question: str, *, most: int = 32) -> str:
    """Return what the model answers first to a question."""
    model.reset()
    prompt = model.tokenizer.chat([{"role": "user", "content": question}])
    tokens = list(model.generate(prompt, max_tokens=most))
    return model.tokenizer.decode(tokens).strip()


def show(model: LanguageModel) -> None:
    for question in ASKED:
        print(f"  {question}\n    {ask(model, question)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--output", type=Path, default=Path("build/fine_tune"))
    options = parser.parse_args()
    file = read(model_path())
    print("before")
    show(load(model_path(), context=128))
    started = time.perf_counter()
    training = make_training(file, options.steps)
    for number, loss in enumerate(learn(training, options.steps), start=1):
        seconds = time.perf_counter() - started
        print(f"step {number:3}: loss {loss:.3f}, {seconds:.0f} s", flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    training.adapters.save(options.output / "adapters.safetensors")
    training.adapters.merged(file, options.output / "merged.gguf")
    print(f"after ({options.output / 'merged.gguf'})")
    show(load(options.output / "merged.gguf", context=128))


if __name__ == "__main__":
    main()
