"""Batching of graphs: from one example to many."""

from rlx.passes.vmap.errors import AxisError as AxisError
from rlx.passes.vmap.errors import DonationError as DonationError
from rlx.passes.vmap.errors import ImpureOpError as ImpureOpError
from rlx.passes.vmap.errors import UnknownInputError as UnknownInputError
from rlx.passes.vmap.errors import UnknownRuleError as UnknownRuleError
from rlx.passes.vmap.errors import VmapError as VmapError
from rlx.passes.vmap.transform import vmap as vmap
