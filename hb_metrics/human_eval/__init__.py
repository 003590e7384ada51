"""Human evaluation of two runs: raters choose between two replies to the same prompt (Smith et al., 2022, C.2.2)."""
