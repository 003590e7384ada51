"""The change of a figure from one run to another, with its own interval."""
