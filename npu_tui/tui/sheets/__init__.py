"""Sheets of text over the main screen."""
