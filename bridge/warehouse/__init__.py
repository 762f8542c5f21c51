"""The built-in batch simulator of a warehouse; knows no RL library."""
