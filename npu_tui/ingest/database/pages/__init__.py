"""Tables read from the pages of the file itself, while SQLite holds them still."""
