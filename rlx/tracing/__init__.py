"""Tracing: functions of arrays run once on tracers, which record a graph."""
