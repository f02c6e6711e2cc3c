"""What a trace is: layers, lanes, slices, rows, links, counters and their times (numpy only)."""
