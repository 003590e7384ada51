"""What all pages share: how numbers are written, the look of figures, the parts of a page, the paper's own numbers."""
