"""What robots and critics see and hear: one file per block of an observation."""
