"""
How minions are asked, and what they have answered.
"""
