"""The pages that the program carries, one Markdown file a topic and language."""
