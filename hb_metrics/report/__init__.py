"""The pages: the report of a run, the comparison of several, Markdown for cards; none knows a measurement by name."""
