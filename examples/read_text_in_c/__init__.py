"""The recognizer of text as a C program; see `export.py` and `read_text.c`."""
