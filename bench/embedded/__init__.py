"""A small network in C, by rlx and by hand, on this machine and on emulated ones."""
