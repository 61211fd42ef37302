"""Loops with their bodies as one kernel: in registers, on local buffers, or through thunks."""
