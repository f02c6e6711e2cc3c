"""Rules about the host: launches, waits, data, memory."""
