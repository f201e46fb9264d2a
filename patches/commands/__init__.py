"""What each command does with its options, and what it prints."""
