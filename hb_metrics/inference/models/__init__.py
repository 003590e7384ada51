"""Language models: their files, the contexts of replies, and the tags of bias tuning."""
