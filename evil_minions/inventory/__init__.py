"""What minions are: their grains and pillars, the populations they come from, and the targets that match them."""
