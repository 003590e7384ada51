"""Turns models into numbers; the only package that imports torch and accelerate."""
