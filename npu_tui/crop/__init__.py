"""A smaller trace out of a larger one: which events are kept, and how they are written."""
