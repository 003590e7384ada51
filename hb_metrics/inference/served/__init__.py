"""Code for served models: HTTP requests, a probe that tests the server, and a journal of the answers."""
