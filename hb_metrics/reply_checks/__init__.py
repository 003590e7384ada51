"""Checks of replies besides their styles (paper, C.2.1): parroting, phrases, refusals, and changes by tuning."""
