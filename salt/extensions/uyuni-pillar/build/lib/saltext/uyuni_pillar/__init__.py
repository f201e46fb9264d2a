"""
Move the pillars of Uyuni from files to PostgreSQL, and see that they are the same.
"""
