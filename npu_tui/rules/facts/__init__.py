"""What the rules read of a device and of the host behind it."""
