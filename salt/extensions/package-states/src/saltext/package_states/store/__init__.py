"""
What is in PostgreSQL.
"""
