"""Sorts and searches: by radix, by networks, in parallel stages."""

from rlx.codegen.kernels.sort import bitonic as bitonic
from rlx.codegen.kernels.sort import network as network
from rlx.codegen.kernels.sort import search as search
from rlx.codegen.kernels.sort import sort as sort
from rlx.codegen.kernels.sort import stages as stages
