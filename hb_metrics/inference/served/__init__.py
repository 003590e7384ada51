"""Models behind an address: asked over HTTP, probed before they are believed, and journalled answer by answer."""
