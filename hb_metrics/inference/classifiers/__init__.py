"""Classifiers of texts: style, offensiveness, regard, refusals."""
