"""``python -m bridge.unity.player``."""

from __future__ import annotations

import sys

from bridge.unity.player.session import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
