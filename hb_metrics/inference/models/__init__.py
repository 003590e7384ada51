"""The language model: its files, its contexts before a reply, and the tags of bias tuning."""
