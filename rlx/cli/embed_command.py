"""`rlx embed`: turn texts into vectors, or score them for a query, with a language model."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

import numpy as np

from rlx.cli.language_models import embedding_of
from rlx.cli.output import show
from rlx.cli.progress import progress
from rlx.errors import InputError


def execute(arguments: Namespace) -> int:
    model, texts = embedding_of(arguments), arguments.text
    if arguments.query is None and model.pooling == "rank":
        raise InputError("this model scores texts for a query", remedy="give one with --query")
    found: Any
    with progress("compiling and reading the texts"):
        if arguments.query is not None:
            found = model.scores(arguments.query, texts)
        elif model.pooling == "none":
            found = [model.rows(model.tokenizer.encode_whole(text)) for text in texts]
        else:
            found = model.embed(texts)
    if arguments.output is None:
        for each in found:
            show(json.dumps(each.tolist()))
        return 0
    if isinstance(found, list):
        found = np.concatenate(found)
    np.save(arguments.output, found)
    return 0
