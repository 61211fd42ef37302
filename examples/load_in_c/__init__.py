"""A C program that loads any exported model at run time."""
