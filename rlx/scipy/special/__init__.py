"""Special functions, as formulas, series and continued fractions, with derivatives."""

from rlx.nn.activations import sigmoid as _sigmoid
from rlx.public_names import names_of as _names_of
from rlx.scipy.special import precision as _precision
from rlx.scipy.special.bessel import i0 as i0
from rlx.scipy.special.bessel import i0e as i0e
from rlx.scipy.special.bessel import i1 as i1
from rlx.scipy.special.bessel import i1e as i1e
from rlx.scipy.special.beta_function import beta as beta
from rlx.scipy.special.beta_function import betaln as betaln
from rlx.scipy.special.elementary import digamma as digamma
from rlx.scipy.special.elementary import entr as entr
from rlx.scipy.special.elementary import erf as erf
from rlx.scipy.special.elementary import erfc as erfc
from rlx.scipy.special.elementary import factorial as factorial
from rlx.scipy.special.elementary import gamma as gamma
from rlx.scipy.special.elementary import gammaln as gammaln
from rlx.scipy.special.elementary import gammasgn as gammasgn
from rlx.scipy.special.elementary import kl_div as kl_div
from rlx.scipy.special.elementary import log_ndtr as log_ndtr
from rlx.scipy.special.elementary import log_softmax as log_softmax
from rlx.scipy.special.elementary import logit as logit
from rlx.scipy.special.elementary import logsumexp as logsumexp
from rlx.scipy.special.elementary import multigammaln as multigammaln
from rlx.scipy.special.elementary import ndtr as ndtr
from rlx.scipy.special.elementary import rel_entr as rel_entr
from rlx.scipy.special.elementary import sinc as sinc
from rlx.scipy.special.elementary import softmax as softmax
from rlx.scipy.special.elementary import xlog1py as xlog1py
from rlx.scipy.special.elementary import xlogy as xlogy
from rlx.scipy.special.faddeeva import dawsn as dawsn
from rlx.scipy.special.faddeeva import erfcx as erfcx
from rlx.scipy.special.faddeeva import wofz as wofz
from rlx.scipy.special.hypergeometric import hyp2f1 as hyp2f1
from rlx.scipy.special.incomplete import betainc as betainc
from rlx.scipy.special.incomplete import gammainc as gammainc
from rlx.scipy.special.incomplete import gammaincc as gammaincc
from rlx.scipy.special.integrals import expi as expi
from rlx.scipy.special.integrals import expn as expn
from rlx.scipy.special.integrals import fresnel as fresnel
from rlx.scipy.special.integrals import owens_t as owens_t
from rlx.scipy.special.integrals import sici as sici
from rlx.scipy.special.integrals import spence as spence
from rlx.scipy.special.normal_quantile import erfinv as erfinv
from rlx.scipy.special.normal_quantile import ndtri as ndtri
from rlx.scipy.special.recurrences import bessel_jn as bessel_jn
from rlx.scipy.special.recurrences import hyp1f1 as hyp1f1
from rlx.scipy.special.recurrences import sph_harm_y as sph_harm_y
from rlx.scipy.special.series import bernoulli as bernoulli
from rlx.scipy.special.series import boxcox as boxcox
from rlx.scipy.special.series import boxcox1p as boxcox1p
from rlx.scipy.special.series import comb as comb
from rlx.scipy.special.series import exp1 as exp1
from rlx.scipy.special.series import loggamma as loggamma
from rlx.scipy.special.series import poch as poch
from rlx.scipy.special.series import polygamma as polygamma
from rlx.scipy.special.series import zeta as zeta

expit = _sigmoid

for _name, _function in list(globals().items()):
    if callable(_function) and not _name.startswith("_"):
        globals()[_name] = _precision.rounded_once(_function)

__dir__ = _names_of(__name__)
