"""Every motion of the user over a scene."""
