"""The change of a figure from one run to another, with an interval."""
