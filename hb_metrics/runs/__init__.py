"""Plans a run, and reads and writes the files of its folder."""
