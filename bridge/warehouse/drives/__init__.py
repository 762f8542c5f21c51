"""How robots move: one file per drive, and what limits them."""
