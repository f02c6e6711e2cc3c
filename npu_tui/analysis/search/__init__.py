"""The search language and what it finds."""
