"""Bytes of a trace to columns by a compiled library, as far as its events are of the common kinds."""
