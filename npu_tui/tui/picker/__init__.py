"""Which of several profiles to open."""
