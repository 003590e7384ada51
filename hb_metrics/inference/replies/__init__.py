"""What a model writes: replies to prompts, continuations of them, paraphrases."""
