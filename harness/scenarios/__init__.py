"""Scenarios: what a load run does, as small TOML files; and the modules that read and check them."""
