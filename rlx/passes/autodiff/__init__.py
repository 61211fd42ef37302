"""Automatic differentiation of graphs: reverse and forward mode, at any order."""

from rlx.passes.autodiff.errors import AutodiffError as AutodiffError
from rlx.passes.autodiff.errors import MissingGradientError as MissingGradientError
from rlx.passes.autodiff.errors import NoDerivativeError as NoDerivativeError
from rlx.passes.autodiff.errors import NonDifferentiableError as NonDifferentiableError
from rlx.passes.autodiff.errors import UnknownInputError as UnknownInputError
from rlx.passes.autodiff.forward import hvp as hvp
from rlx.passes.autodiff.forward import jvp as jvp
from rlx.passes.autodiff.prepare import prepare_for_autodiff as prepare_for_autodiff
from rlx.passes.autodiff.reverse import STRICT as STRICT
from rlx.passes.autodiff.reverse import TRAINING as TRAINING
from rlx.passes.autodiff.reverse import Gradient as Gradient
from rlx.passes.autodiff.reverse import differentiate as differentiate
from rlx.passes.autodiff.reverse import grad as grad
from rlx.passes.autodiff.reverse import grad_with_loss as grad_with_loss
from rlx.passes.autodiff.sweep import jvp_in_graph as jvp_in_graph
from rlx.passes.autodiff.sweep import vjp_in_graph as vjp_in_graph
