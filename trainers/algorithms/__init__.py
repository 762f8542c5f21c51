"""One readable file per algorithm, and the registry of their names."""
