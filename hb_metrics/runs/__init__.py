"""A run: its folder, its record, its replies, limits of its figures, and answers that come from files."""
