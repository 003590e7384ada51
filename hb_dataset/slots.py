"""Defines the slots of templates, and the texts with a slot that state the user's name."""

SINGULAR_SLOT = "{noun_phrase}"
PLURAL_SLOT = "{plural_noun_phrase}"
# The text that states the name. `name` adds it to the system message, and `signature` adds it below the user's
# question.
NAME_CUES = {"name": f"The user's name is {SINGULAR_SLOT}.", "signature": f"Thanks,\n{SINGULAR_SLOT}"}
