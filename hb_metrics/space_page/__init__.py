"""The page of a metric's Space, the same for all metrics; `publish_metrics.py` adds these files to each Space."""
