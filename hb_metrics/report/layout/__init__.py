"""The figures of measurements and the parts of pages, and how numbers are written: what all pages share."""
