"""Passes over collectives: fewer of them, and earlier."""
