"""The language model: loading it, what it is given before it replies, and the tags of bias tuning."""
