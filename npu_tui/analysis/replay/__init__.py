"""The run again with something changed: what the job would have taken."""
