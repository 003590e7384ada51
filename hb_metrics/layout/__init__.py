"""Turns figures into text, plots and pages."""
