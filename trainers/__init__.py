"""Learning: what turns a world into a policy."""
