"""What classifiers say of texts: style, offensiveness, regard."""
