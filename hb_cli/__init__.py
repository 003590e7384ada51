"""Defines the command `holistic-bias`."""
