"""Columns to a Trace: order, rows, links."""
