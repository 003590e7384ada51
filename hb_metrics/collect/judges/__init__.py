"""Classifies texts with judges. A judge is a language model that reads a rubric and chooses one of its labels."""
