"""The bed's PostgreSQL: where a server comes from, and what is in it."""
