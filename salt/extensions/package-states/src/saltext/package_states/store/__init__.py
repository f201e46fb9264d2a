"""What is in PostgreSQL."""
