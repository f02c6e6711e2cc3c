"""Bytes of a file to events."""
