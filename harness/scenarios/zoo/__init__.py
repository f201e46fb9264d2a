"""Bugs of Salt under load: descriptions, scenarios and checks, see harness.zoo."""
