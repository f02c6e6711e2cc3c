"""Bytes on disk to a ``Trace`` and the tables beside it."""
