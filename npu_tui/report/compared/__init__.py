"""A comparison as text, Markdown, JSON and HTML."""
