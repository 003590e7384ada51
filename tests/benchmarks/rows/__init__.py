"""One file a row; `ROW` says what is done and by whom."""
