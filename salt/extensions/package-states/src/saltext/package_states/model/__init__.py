"""What a package state is: packages, what is wanted of them, and one verdict for each."""
