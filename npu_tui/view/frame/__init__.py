"""One frame, piece by piece."""
