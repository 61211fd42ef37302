"""Convolutions: plain, in register tiles, depthwise, Winograd."""

from rlx.codegen.kernels.conv import conv as conv
from rlx.codegen.kernels.conv import depthwise as depthwise
from rlx.codegen.kernels.conv import tiles as tiles
from rlx.codegen.kernels.conv import winograd as winograd
