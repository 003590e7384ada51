"""Classifies texts by style, offensiveness and regard."""
