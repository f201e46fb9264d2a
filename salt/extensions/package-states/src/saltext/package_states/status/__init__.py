"""What is there beside what is wanted, as plain data."""
