"""The command `holistic-bias`, and scripts for the Hub, its local caches and the vocabulary. Nothing imports them."""
