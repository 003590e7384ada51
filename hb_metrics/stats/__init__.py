"""Contains statistics that several metrics share, as functions of NumPy arrays."""
