"""A renderer of splats as a C program; see `export.py` and `render.c`."""
