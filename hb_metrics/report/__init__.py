"""Pages of figures. Only `sides.py` names figures; all other pages show the figures that measurements return."""
