"""The formats of a report, and pictures."""
