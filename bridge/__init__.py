"""Worlds in, policies out: everything of agv-bridge that needs no learning (and no torch)."""
