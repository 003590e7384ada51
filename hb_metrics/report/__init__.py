"""The pages: the report of a run, the comparison of several, Markdown for cards; only `sides.py` names figures."""
