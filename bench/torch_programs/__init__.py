"""PyTorch models by eager mode, by inductor and by rlx: forward, a training step, compile time."""
