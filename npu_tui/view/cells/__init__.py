"""Cells of a screen: glyphs, inks, bars and lines."""
