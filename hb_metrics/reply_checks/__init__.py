"""Checks of replies beside their styles (paper, C.2.1): parroting, phrases, refusals, and what tuning changed."""
