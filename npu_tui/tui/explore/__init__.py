"""The main screen and what it hands its work to."""
