"""The parts of a run: its folder, record, plan, replies, gates and imported answers."""
