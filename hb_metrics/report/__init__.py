"""Pages that show figures. The measurements define the figures, and only `sides.py` selects some by name."""
