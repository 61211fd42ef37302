"""A cart and pole, swung up by a controller in C; `python -m examples.control.swing_up`."""
