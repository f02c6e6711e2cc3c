"""One rank measured once: its trace, source, companion files and thresholds, and all that is computed of them."""
