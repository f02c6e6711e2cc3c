"""The parts of the main screen that draw."""
