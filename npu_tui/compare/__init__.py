"""Two profiles to what changed between them."""
