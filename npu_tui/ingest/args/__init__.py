"""The args of events, which stay in the file."""
