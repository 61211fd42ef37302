"""Layouts, tiles and libraries that suit the target."""
