"""Load runs: from a scenario to raw samples. Nothing is computed here."""
