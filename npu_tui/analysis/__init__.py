"""Trace to numbers: pure functions, one module per question."""
