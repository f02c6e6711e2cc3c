"""A file read in ranges, by one process or several."""
