"""results.json → report.html: one self-contained file that opens offline; and several runs side by side."""

from hb_metrics.report.comparison import write_comparison
from hb_metrics.report.markdown import overview_markdown
from hb_metrics.report.page import write_report

__all__ = ["overview_markdown", "write_comparison", "write_report"]
