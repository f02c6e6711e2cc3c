"""The report about a job of several ranks."""
