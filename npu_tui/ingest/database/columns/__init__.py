"""Rows of a database as the columns of a trace."""
