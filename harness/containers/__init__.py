"""The bed as containers: master, salt-api, PostgreSQL, fleet and clients on a network of their own, through Docker."""
