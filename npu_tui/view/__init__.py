"""Trace and viewport to a grid of cells: pure, without Textual or Rich."""
