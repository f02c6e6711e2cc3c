"""What the tables beside a trace tell of its slices."""
