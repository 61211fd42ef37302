"""Random numbers of explicit keys: `normal(key, shape)` is a function, the same at every call.

    key = rlx.random.key(0)
    key, noise = rlx.random.split(key)
    x = rlx.random.normal(noise, (3, 4))

The bits are those that JAX draws for the same key, but for `randint`, `choice` and truncated
normals in a tail, where JAX's are not distributed as they should be. Draws are f32 and i32 where
no dtype is named. They work inside `jit`, `vmap`, loops, derivatives and exported C.
"""

from __future__ import annotations

from rlx.public_names import names_of as _names_of
from rlx.random import philox as philox
from rlx.random.choices import categorical as categorical
from rlx.random.choices import choice as choice
from rlx.random.choices import permutation as permutation
from rlx.random.continuous import cauchy as cauchy
from rlx.random.continuous import double_sided_maxwell as double_sided_maxwell
from rlx.random.continuous import exponential as exponential
from rlx.random.continuous import geometric as geometric
from rlx.random.continuous import gumbel as gumbel
from rlx.random.continuous import laplace as laplace
from rlx.random.continuous import logistic as logistic
from rlx.random.continuous import lognormal as lognormal
from rlx.random.continuous import maxwell as maxwell
from rlx.random.continuous import multivariate_normal as multivariate_normal
from rlx.random.continuous import normal as normal
from rlx.random.continuous import pareto as pareto
from rlx.random.continuous import rayleigh as rayleigh
from rlx.random.continuous import triangular as triangular
from rlx.random.continuous import wald as wald
from rlx.random.continuous import weibull_min as weibull_min
from rlx.random.discrete import binomial as binomial
from rlx.random.discrete import multinomial as multinomial
from rlx.random.keys import PRNGKey as PRNGKey
from rlx.random.keys import clone as clone
from rlx.random.keys import fold_in as fold_in
from rlx.random.keys import key as key
from rlx.random.keys import key_data as key_data
from rlx.random.keys import split as split
from rlx.random.keys import wrap_key_data as wrap_key_data
from rlx.random.matrices import orthogonal as orthogonal
from rlx.random.rejection import ball as ball
from rlx.random.rejection import beta as beta
from rlx.random.rejection import chisquare as chisquare
from rlx.random.rejection import dirichlet as dirichlet
from rlx.random.rejection import f as f
from rlx.random.rejection import gamma as gamma
from rlx.random.rejection import generalized_normal as generalized_normal
from rlx.random.rejection import loggamma as loggamma
from rlx.random.rejection import poisson as poisson
from rlx.random.rejection import t as t
from rlx.random.truncated import truncated_normal as truncated_normal
from rlx.random.uniforms import bernoulli as bernoulli
from rlx.random.uniforms import bits as bits
from rlx.random.uniforms import rademacher as rademacher
from rlx.random.uniforms import randint as randint
from rlx.random.uniforms import uniform as uniform

__dir__ = _names_of(__name__)
