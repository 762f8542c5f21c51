"""What an importer has to say about a file that is loose but usable."""

from __future__ import annotations

__all__ = ["ImportWarnings"]

_MOST_LINES = 20


class ImportWarnings:
    """Collects sentences; equal ones are counted, and a flood of them is cut."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def add(self, sentence: str) -> None:
        """Remember a sentence, which stands alone and ends with a full stop."""
        self._counts[sentence] = self._counts.get(sentence, 0) + 1

    def lines(self) -> tuple[str, ...]:
        """The sentences in the order of their first appearance."""
        lines = [f"{text} ({count} times.)" if count > 1 else text for text, count in self._counts.items()]
        if len(lines) > _MOST_LINES:
            lines[_MOST_LINES:] = [f"{len(lines) - _MOST_LINES} further warnings are left out."]
        return tuple(lines)
