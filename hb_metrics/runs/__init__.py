"""A run: its folder, record, plan, replies and gates, and answers from files."""
