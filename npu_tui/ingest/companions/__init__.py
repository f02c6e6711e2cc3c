"""The files beside a trace."""
