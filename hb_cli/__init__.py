"""The command `holistic-bias`."""
