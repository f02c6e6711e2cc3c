"""The profiler's SQLite databases as the same columns that a text trace has."""
