"""Sorts and searches: by radix, by networks, in parallel stages."""
