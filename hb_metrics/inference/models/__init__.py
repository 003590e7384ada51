"""Language models: their files, the contexts before a reply, and the tags of bias tuning."""
