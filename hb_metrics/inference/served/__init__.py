"""Communicates with servers that run models. Tests a server, sends requests over HTTP, and keeps the answers."""
