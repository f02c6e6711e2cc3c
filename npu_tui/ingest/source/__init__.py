"""Which files belong together, and their plain bytes."""
