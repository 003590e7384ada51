"""The commands: what reads a command line and calls the rooms below."""
