"""A comparison as a picture: one step of each side, slice by slice."""
