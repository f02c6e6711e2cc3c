"""Bytes on disk to a Trace."""
