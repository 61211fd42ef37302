"""Passes: functions from graphs to graphs. They are imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.homes import lazily as _lazily
from rlx.public_names import names_of as _names_of

if TYPE_CHECKING:
    from rlx.passes.autodiff import STRICT as STRICT
    from rlx.passes.autodiff import TRAINING as TRAINING
    from rlx.passes.autodiff import grad as grad
    from rlx.passes.autodiff import grad_with_loss as grad_with_loss
    from rlx.passes.autodiff import hvp as hvp
    from rlx.passes.autodiff import jvp as jvp
    from rlx.passes.vmap import vmap as vmap
else:
    __getattr__ = _lazily(__name__)

__dir__ = _names_of(__name__)
