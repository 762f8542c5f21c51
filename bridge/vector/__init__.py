"""Many environments in one or several processes behind fixed arrays."""
