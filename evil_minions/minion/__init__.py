"""One minion: its life from signing in to the last return, and what it shares with the others of its worker."""
