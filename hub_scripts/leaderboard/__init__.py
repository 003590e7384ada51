"""The leaderboard: reading what others published, groups of runs that compare, and the page, which loads nothing."""
