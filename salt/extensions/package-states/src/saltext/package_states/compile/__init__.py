"""What is wanted, compiled to files: who there is, and which states apply to whom."""
