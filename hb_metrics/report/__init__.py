"""results.json → report.html: one self-contained file that opens offline; and a page with two runs side by side."""

from hb_metrics.report.comparison import write_comparison
from hb_metrics.report.page import write_report

__all__ = ["write_comparison", "write_report"]
