"""What a user would run without learning, and how much any policy could reach."""
