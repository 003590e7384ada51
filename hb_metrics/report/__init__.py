"""results.json → report.html: one self-contained file that opens offline; and several runs side by side."""
