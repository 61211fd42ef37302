"""Contractions: one builder of register tiles for the fold maps that ops declare."""
