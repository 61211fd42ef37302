"""Products with packed weights: blocks of levels, int8, experts."""
