"""The page of the leaderboard: groups of runs that compare, their rows, and the plot, as one file that loads nothing."""
