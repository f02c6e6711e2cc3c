"""Events of a file as columns: of one range, then of the whole file."""
