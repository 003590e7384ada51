"""Classifiers of texts by style, offensiveness, regard and refusal."""
