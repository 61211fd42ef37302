"""The derivative rules of all ops, one file per family, loaded when they are asked for."""
