"""`rlx chat`: a conversation with a language model, a line at a time."""

from __future__ import annotations

import sys
from argparse import Namespace

from rlx.cli.language_models import answer, model_of
from rlx.cli.output import show


def execute(arguments: Namespace) -> int:
    model = model_of(arguments)
    messages: list[dict[str, str]] = []
    if arguments.system:
        messages.append({"role": "system", "content": arguments.system})
    first = len(messages)
    while True:
        if sys.stdin.isatty():
            show("> ", end="", to_errors=True, flush=True)
        line = sys.stdin.readline()
        if not line:
            return 0
        if not line.strip():
            continue
        messages.append({"role": "user", "content": line.strip()})
        prompt = model.tokenizer.chat(messages)
        while len(prompt) >= model.context and len(messages) > first + 1:
            del messages[first : first + 2]  # the oldest question and its answer
            prompt = model.tokenizer.chat(messages)
        said = answer(model, model.keep_common(prompt), arguments)
        messages.append({"role": "assistant", "content": said.text})
