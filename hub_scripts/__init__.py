"""Scripts for the Hub, for its local caches and for the vocabulary. Only the command line imports these scripts."""
