"""A profile held against limits and a baseline: what a CI job asks."""
