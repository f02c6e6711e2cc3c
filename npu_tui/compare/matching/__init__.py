"""What of one profile is what of the other."""
