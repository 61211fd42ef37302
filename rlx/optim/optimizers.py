"""Optimizers: chains of transformations that end in updates ready to be added to params."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.optim import scaling, two_moments
from rlx.optim.limiting import add_noise
from rlx.optim.protocol import (
    GradientTransformation,
    Number,
    chain,
    identity,
    scale_by_learning_rate,
)
from rlx.optim.wrapping import add_decayed_weights, masked


def sgd(
    learning_rate: Number, momentum: float | None = None, nesterov: bool = False,
    accumulator_dtype: Any = None,
) -> GradientTransformation:  # fmt: skip
    """Stochastic gradient descent; the velocity is `momentum * velocity + gradient`."""
    if nesterov and not momentum:
        raise InputError("nesterov needs a momentum", remedy="pass momentum=0.9")
    return chain(_momentum(momentum, nesterov, accumulator_dtype),
                 scale_by_learning_rate(learning_rate))  # fmt: skip


def _momentum(decay: float | None, nesterov: bool, dtype: Any = None) -> GradientTransformation:
    return scaling.trace(decay, nesterov, dtype) if decay else identity()


def adam(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
    eps_root: float = 0.0, mu_dtype: Any = None, *, nesterov: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Adam (Kingma and Ba, 2014)."""
    scaled = two_moments.scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)
    return chain(scaled, scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
    eps_root: float = 0.0, mu_dtype: Any = None, weight_decay: Number = 1e-4, mask: Any = None,
    *, nesterov: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2017)."""
    scaled = two_moments.scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)
    return _decayed(scaled, learning_rate, weight_decay, mask)


def _decayed(
    scaled: GradientTransformation, learning_rate: Number, weight_decay: Number, mask: Any
) -> GradientTransformation:
    decay = add_decayed_weights(weight_decay, mask)
    return chain(scaled, decay, scale_by_learning_rate(learning_rate))


def nadam(learning_rate: Number, *args: Any, **options: Any) -> GradientTransformation:
    """Adam with Nesterov's momentum; arguments are those of `adam`."""
    return adam(learning_rate, *args, **{"nesterov": True, **options})


def nadamw(learning_rate: Number, *args: Any, **options: Any) -> GradientTransformation:
    """AdamW with Nesterov's momentum; arguments are those of `adamw`."""
    return adamw(learning_rate, *args, **{"nesterov": True, **options})


def adamax(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> GradientTransformation:
    """Adam with the largest magnitude in place of the mean square."""
    return chain(two_moments.scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamaxw(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
    weight_decay: Number = 1e-4, mask: Any = None,
) -> GradientTransformation:  # fmt: skip
    """AdaMax with decoupled weight decay."""
    return _decayed(two_moments.scale_by_adamax(b1, b2, eps), learning_rate, weight_decay, mask)


def amsgrad(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
    eps_root: float = 0.0, mu_dtype: Any = None, bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> GradientTransformation:  # fmt: skip
    """Adam with the largest mean square so far."""
    scaled = two_moments.scale_by_amsgrad(
        b1, b2, eps, eps_root, mu_dtype, bias_correction_mu, bias_correction_nu
    )
    return chain(scaled, scale_by_learning_rate(learning_rate))


def adabelief(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-16,
    eps_root: float = 1e-16, *, nesterov: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Adam with the variance around the mean in place of the mean square."""
    scaled = two_moments.scale_by_belief(b1, b2, eps, eps_root, nesterov=nesterov)
    return chain(scaled, scale_by_learning_rate(learning_rate))


def adadelta(
    learning_rate: Number = 1.0, rho: float = 0.9, eps: float = 1e-6,
    weight_decay: Number = 0.0, weight_decay_mask: Any = None,
) -> GradientTransformation:  # fmt: skip
    """AdaDelta."""
    decay = add_decayed_weights(weight_decay, weight_decay_mask)
    rate = scale_by_learning_rate(learning_rate)
    return chain(decay, scaling.scale_by_adadelta(rho, eps), rate)


def adagrad(
    learning_rate: Number, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """AdaGrad."""
    scaled = scaling.scale_by_rss(initial_accumulator_value, eps)
    return chain(scaled, scale_by_learning_rate(learning_rate))


def lion(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.99, mu_dtype: Any = None,
    weight_decay: Number = 1e-3, mask: Any = None,
) -> GradientTransformation:  # fmt: skip
    """Lion: signs of momenta."""
    return _decayed(scaling.scale_by_lion(b1, b2, mu_dtype), learning_rate, weight_decay, mask)


def rmsprop(
    learning_rate: Number, decay: float = 0.9, eps: float = 1e-8, initial_scale: float = 0.0,
    eps_in_sqrt: bool = True, centered: bool = False, momentum: float | None = None,
    nesterov: bool = False, bias_correction: bool = False,
) -> GradientTransformation:  # fmt: skip
    """RMSProp; `centered` divides by the standard deviation."""
    scaled = scaling.scale_by_stddev if centered else scaling.scale_by_rms
    return chain(
        scaled(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        _momentum(momentum, nesterov),
    )


def radam(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8,
    eps_root: float = 0.0, threshold: float = 5.0, *, nesterov: bool = False,
) -> GradientTransformation:  # fmt: skip
    """Rectified Adam."""
    scaled = two_moments.scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov)
    return chain(scaled, scale_by_learning_rate(learning_rate))


def yogi(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-3
) -> GradientTransformation:
    """Yogi."""
    return chain(two_moments.scale_by_yogi(b1, b2, eps), scale_by_learning_rate(learning_rate))


def lamb(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-6,
    eps_root: float = 0.0, weight_decay: Number = 0.0, mask: Any = None,
) -> GradientTransformation:  # fmt: skip
    """LAMB: Adam scaled by the norms of params, for large batches."""
    return chain(
        two_moments.scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scaling.scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


def lars(
    learning_rate: Number, weight_decay: Number = 0.0, weight_decay_mask: Any = True,
    trust_coefficient: float = 0.001, eps: float = 0.0, trust_ratio_mask: Any = True,
    momentum: float = 0.9, nesterov: bool = False,
) -> GradientTransformation:  # fmt: skip
    """LARS: momentum scaled by the norms of params, for large batches."""
    ratio = scaling.scale_by_trust_ratio(trust_coefficient=trust_coefficient, eps=eps)
    return chain(
        add_decayed_weights(weight_decay, weight_decay_mask),
        masked(ratio, trust_ratio_mask),
        scale_by_learning_rate(learning_rate),
        scaling.trace(momentum, nesterov),
    )


def novograd(
    learning_rate: Number, b1: float = 0.9, b2: float = 0.25, eps: float = 1e-6,
    eps_root: float = 0.0, weight_decay: float = 0.0,
) -> GradientTransformation:  # fmt: skip
    """NovoGrad."""
    scaled = scaling.scale_by_novograd(b1, b2, eps, eps_root, weight_decay)
    return chain(scaled, scale_by_learning_rate(learning_rate))


def fromage(learning_rate: Number, min_norm: float = 1e-6) -> GradientTransformation:
    """Fromage: steps relative to the norms of params."""

    def shrink(rate: Any) -> Any:
        return 1 / rnp.sqrt(1 + rate**2)

    rate, decay = learning_rate, None
    if callable(learning_rate):
        rate = lambda count: shrink(learning_rate(count)) * learning_rate(count)  # noqa: E731
        decay = lambda count: shrink(learning_rate(count)) - 1  # noqa: E731
    else:
        factor = (1 + learning_rate**2) ** -0.5
        rate, decay = learning_rate * factor, factor - 1
    return chain(
        scaling.scale_by_trust_ratio(min_norm),
        scale_by_learning_rate(rate),
        add_decayed_weights(decay),
    )


def noisy_sgd(
    learning_rate: Number, eta: float = 0.01, gamma: float = 0.55, key: Any = 0
) -> GradientTransformation:
    """Gradient descent with noise that wears off."""
    return chain(add_noise(eta, gamma, key), scale_by_learning_rate(learning_rate))


def optimistic_gradient_descent(
    learning_rate: Number, alpha: float = 1.0, beta: float = 1.0
) -> GradientTransformation:
    """Gradient descent that looks at how the gradient changes; for games."""
    scaled = scaling.scale_by_optimistic_gradient(alpha, beta)
    return chain(scaled, scale_by_learning_rate(learning_rate))


def sign_sgd(learning_rate: Number) -> GradientTransformation:
    """Gradient descent by signs."""
    return chain(scaling.scale_by_sign(), scale_by_learning_rate(learning_rate))
