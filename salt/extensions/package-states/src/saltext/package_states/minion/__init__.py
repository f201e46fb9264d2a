"""What minions do: plan and run transactions, and tell of changes."""
