"""What a contender times: each module has `prepare(settings)`, which returns the callable."""
