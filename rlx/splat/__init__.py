"""Gaussian splatting: scenes of ellipsoids, drawn and fitted. See `docs/splatting.md`."""

from rlx.public_names import names_of as _names_of
from rlx.splat.ply import read_ply as read_ply
from rlx.splat.ply import write_ply as write_ply
from rlx.splat.render import camera as camera
from rlx.splat.render import linear_to_display as linear_to_display
from rlx.splat.render import render as render
from rlx.splat.scene import Scene as Scene

__dir__ = _names_of(__name__)
