"""The report of a load run: one HTML page that needs nothing else, made of its result and its raw samples."""
