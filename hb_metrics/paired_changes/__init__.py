"""Computes the change in a figure from one run to another, with an interval."""
