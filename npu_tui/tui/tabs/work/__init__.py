"""Tabs that sum up the trace or a range of it."""
