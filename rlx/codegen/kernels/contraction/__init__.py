"""Contractions: one builder of register tiles over what an op declares that it reads."""
