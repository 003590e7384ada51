"""Contains scripts for the Hub, its local caches and the vocabulary. Only the command line imports these scripts."""
