"""`rlx generate`: continue a prompt, or answer a question, with a language model."""

from __future__ import annotations

from argparse import Namespace

from rlx.cli.language_models import answer, model_of
from rlx.cli.output import show


def execute(arguments: Namespace) -> int:
    model = model_of(arguments)
    if arguments.chat:
        prompt = model.tokenizer.chat([{"role": "user", "content": arguments.prompt}])
    else:
        prompt = model.tokenizer.encode(arguments.prompt)
    found = answer(model, prompt, arguments)
    show(
        f"{len(prompt)} tokens of prompt in {found.prompt_seconds:.2f} s; "
        f"{found.tokens / max(found.seconds, 1e-9):.1f} tokens a second",
        to_errors=True,
    )
    return 0
