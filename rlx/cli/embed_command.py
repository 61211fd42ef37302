"""`rlx embed`: turn texts into vectors with a language model."""

from __future__ import annotations

import json
from argparse import Namespace

import numpy as np

from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.language.embedding import load_embedding


def execute(arguments: Namespace) -> int:
    with progress(f"reading {arguments.model}"):
        model = load_embedding(
            arguments.model,
            pooling=arguments.pooling,
            context=arguments.context,
            backend=arguments.backend,
            threads=arguments.threads,
            accuracy=arguments.accuracy,
            quantize=arguments.quantize,
        )
    with progress("compiling and reading the texts"):
        vectors = model.embed(arguments.text)
    if arguments.output is not None:
        np.save(arguments.output, vectors)
        return 0
    for vector in vectors:
        show(json.dumps(vector.tolist()))
    return 0
