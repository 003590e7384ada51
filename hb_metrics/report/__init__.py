"""results.json → report.html: one self-contained file that opens offline."""

from hb_metrics.report.page import write_report

__all__ = ["write_report"]
