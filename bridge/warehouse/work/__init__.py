"""What robots work on: tasks, stations, charging, and who is sent where."""
