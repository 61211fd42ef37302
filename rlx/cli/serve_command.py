"""`rlx serve`: OpenAI's HTTP interface to a language model."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from rlx.cli.language_models import model_of
from rlx.cli.output import show
from rlx.errors import UnsupportedError


def execute(arguments: Namespace) -> int:
    try:
        import uvicorn

        from rlx.language.server import Limits, application
    except ImportError as error:
        raise UnsupportedError(
            f"rlx serve needs the package {error.name}", remedy="pip install rlx[serve]"
        ) from error
    model = model_of(arguments)
    app = application(
        model,
        name=Path(arguments.model).stem,
        slots=arguments.slots,
        limits=Limits(seconds=arguments.seconds),
        keep=arguments.keep,
    )
    show(f"serving http://{arguments.host}:{arguments.port}/v1", to_errors=True)
    uvicorn.run(app, host=arguments.host, port=arguments.port, log_level="warning")
    return 0
