"""The batching rules of all ops, one file per family, loaded when they are asked for.

Elementwise ops and reductions have none: their traits say all there is to say.
"""
