"""The tables of a database: connection, rows, texts, joins."""
