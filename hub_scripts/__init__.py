"""Scripts for the Hub, its local caches and the vocabulary. Only the command line imports them."""
