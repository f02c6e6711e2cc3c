"""The registry of commands and the keys that run them."""
