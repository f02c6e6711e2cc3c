"""What a tab is made of: its table, its order, what it is computed of, pictures beside it."""
