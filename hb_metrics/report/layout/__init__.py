"""Figures, parts of pages and formats of numbers, which all pages share."""
