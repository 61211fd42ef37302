"""Convolutions: plain, direct, channels last, depthwise, Winograd."""

from rlx.codegen.kernels.conv import channels_last as channels_last
from rlx.codegen.kernels.conv import conv as conv
from rlx.codegen.kernels.conv import depthwise as depthwise
from rlx.codegen.kernels.conv import depthwise_last as depthwise_last
from rlx.codegen.kernels.conv import direct as direct
from rlx.codegen.kernels.conv import winograd as winograd
