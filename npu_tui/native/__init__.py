"""The compiled loops, each with a slower twin in Python beside it; nothing of ours is imported here."""
