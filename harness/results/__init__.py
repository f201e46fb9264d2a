"""Results: from raw samples to figures, and the folders of runs."""
