"""What only the screen of a comparison has: its head, and how it is opened."""
