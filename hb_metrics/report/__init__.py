"""Writes pages: the report of a run, the comparison of several, Markdown for cards. Only `sides.py` names figures."""
