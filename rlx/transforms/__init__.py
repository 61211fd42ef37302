"""Function transformations: jit, derivatives, batching, control flow, custom rules."""
