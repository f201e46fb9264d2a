"""What a fleet counts and writes down: counters, the tally of each job, and the files of samples."""
