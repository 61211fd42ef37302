"""Probability distributions: densities, distribution functions, quantiles."""

from rlx.public_names import names_of as _names_of
from rlx.scipy.stats.distributions import bernoulli as bernoulli
from rlx.scipy.stats.distributions import beta as beta
from rlx.scipy.stats.distributions import betabinom as betabinom
from rlx.scipy.stats.distributions import binom as binom
from rlx.scipy.stats.distributions import cauchy as cauchy
from rlx.scipy.stats.distributions import chi2 as chi2
from rlx.scipy.stats.distributions import expon as expon
from rlx.scipy.stats.distributions import gamma as gamma
from rlx.scipy.stats.distributions import gennorm as gennorm
from rlx.scipy.stats.distributions import geom as geom
from rlx.scipy.stats.distributions import gumbel_l as gumbel_l
from rlx.scipy.stats.distributions import gumbel_r as gumbel_r
from rlx.scipy.stats.distributions import laplace as laplace
from rlx.scipy.stats.distributions import logistic as logistic
from rlx.scipy.stats.distributions import nbinom as nbinom
from rlx.scipy.stats.distributions import norm as norm
from rlx.scipy.stats.distributions import pareto as pareto
from rlx.scipy.stats.distributions import poisson as poisson
from rlx.scipy.stats.distributions import t as t
from rlx.scipy.stats.distributions import truncnorm as truncnorm
from rlx.scipy.stats.distributions import uniform as uniform
from rlx.scipy.stats.distributions import vonmises as vonmises
from rlx.scipy.stats.distributions import wrapcauchy as wrapcauchy
from rlx.scipy.stats.kernel_density import gaussian_kde as gaussian_kde
from rlx.scipy.stats.samples import mode as mode
from rlx.scipy.stats.samples import rankdata as rankdata
from rlx.scipy.stats.samples import sem as sem
from rlx.scipy.stats.vectors import dirichlet as dirichlet
from rlx.scipy.stats.vectors import multinomial as multinomial
from rlx.scipy.stats.vectors import multivariate_normal as multivariate_normal

__dir__ = _names_of(__name__)
