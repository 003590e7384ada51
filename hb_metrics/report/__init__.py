"""Writes pages that show figures. Measurements define the figures, and only `sides.py` selects figures by name."""
