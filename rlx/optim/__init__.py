"""Optimizers and learning-rate schedules, as pure functions."""

from rlx.optim.optimizer import Optimizer as Optimizer
from rlx.optim.optimizer import Schedule as Schedule
from rlx.optim.optimizer import adam as adam
from rlx.optim.optimizer import adamw as adamw
from rlx.optim.optimizer import clip_by_global_norm as clip_by_global_norm
from rlx.optim.optimizer import global_norm as global_norm
from rlx.optim.optimizer import sgd as sgd
from rlx.optim.schedules import constant as constant
from rlx.optim.schedules import cosine_decay as cosine_decay
from rlx.optim.schedules import exponential_decay as exponential_decay
from rlx.optim.schedules import join as join
from rlx.optim.schedules import linear as linear
from rlx.optim.schedules import warmup_cosine as warmup_cosine
