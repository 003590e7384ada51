"""What the paper looks at in replies beside their styles (C.2.1): parroting, phrases, and what tuning changed."""
