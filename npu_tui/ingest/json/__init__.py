"""A file of events to columns: chunks, events, columns, in parallel."""
