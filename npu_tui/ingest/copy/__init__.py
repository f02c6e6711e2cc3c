"""Parsed copies of traces."""
