"""Provides offensiveness by descriptor and template (paper, 2.3.4 and B.3) as an `evaluate` module."""
