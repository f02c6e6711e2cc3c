"""Results to text and pictures."""
