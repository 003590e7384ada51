"""Checks of replies that go beyond styles (paper, C.2.1): parroting, phrases, refusals, and changes by tuning."""
