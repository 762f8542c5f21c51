"""One file per kind of world: from its own API to rosters and PettingZoo environments."""
