"""What the device and the host worked on, name by name."""
