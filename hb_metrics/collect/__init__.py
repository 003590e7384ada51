"""Asks models and classifiers, and writes their answers. Only this room and `models` import torch."""
