"""Communicates with servers that run models: tests a server, sends requests over HTTP, and stores the answers."""
