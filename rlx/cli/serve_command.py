"""`rlx serve`: OpenAI's HTTP interface to a language model."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from rlx.cli.language_models import embedding_of, model_of
from rlx.cli.output import show
from rlx.errors import UnsupportedError
from rlx.language.config import DecoderConfig
from rlx.language.embedding import EmbeddingModel
from rlx.language.model import LanguageModel, open_model

_IDLE_SECONDS = 75
"""After which an idle connection is closed: more than clients keep theirs, so that none sends a
request on a connection that the server is closing."""


def execute(arguments: Namespace) -> int:
    try:
        import uvicorn

        from rlx.language.server import Limits, application
    except ImportError as error:
        raise UnsupportedError(
            f"rlx serve needs the package {error.name}", remedy="pip install rlx[serve]"
        ) from error
    file = open_model(arguments.model, quantize=arguments.quantize)
    writes = DecoderConfig.of(file).causal
    model: LanguageModel | EmbeddingModel
    model = model_of(arguments) if writes else embedding_of(arguments)
    app = application(
        model,
        name=Path(arguments.model).stem,
        slots=arguments.slots,
        limits=Limits(seconds=arguments.seconds),
        keep=arguments.keep,
    )
    show(f"serving http://{arguments.host}:{arguments.port}/v1", to_errors=True)
    uvicorn.run(
        app,
        host=arguments.host,
        port=arguments.port,
        log_level="warning",
        timeout_keep_alive=_IDLE_SECONDS,
    )
    return 0
