"""`jax.tree`: functions of trees under their short names."""

__all__ = [
    *("all", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map"),
    *("map_with_path", "reduce", "structure", "transpose", "unflatten"),
]
