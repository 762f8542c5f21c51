"""What actions and names of a VDMA LIF file say that a place is for.

The standard takes its action types from VDA 5050 (``pick``, ``drop``, ``startCharging``) and lets makers add
their own, so that files are full of ``dropOff``, ``pick_pallet`` and ``charge``. A type or a name is split into
words, and the first word that is known decides.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from bridge.maps.documents import Item

__all__ = ["Purpose", "action_types", "purposes_of_action", "purposes_of_name"]

Purpose = Literal["fetch", "bring", "charge", "park"]

_LISTS: Final = ("actions", "requiredActions", "feasibleActions")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# A robot that stops charging leaves; where it stops is told by where it starts.
_ENDS: Final = frozenset({"stop", "end", "finish", "cancel", "abort", "pause"})

_BOTH: Final = frozenset[Purpose]({"fetch", "bring"})
_WORDS: Final[dict[str, frozenset[Purpose]]] = {
    **dict.fromkeys(("pick", "picking", "pickup", "load", "loading", "fetch", "collect"), frozenset({"fetch"})),
    **dict.fromkeys(
        ("drop", "dropping", "dropoff", "unload", "unloading", "deliver", "delivery", "deposit"),
        frozenset({"bring"}),
    ),
    **dict.fromkeys(("transfer", "handover"), _BOTH),
    **dict.fromkeys(("charge", "charging", "charger", "recharge", "recharging"), frozenset({"charge"})),
    **dict.fromkeys(("park", "parking"), frozenset({"park"})),
}
# Verbs that mean something else in a name, and nouns that mean nothing in an action.
_VERBS: Final[dict[str, frozenset[Purpose]]] = {
    **_WORDS,
    "take": frozenset({"fetch"}),
    "put": frozenset({"bring"}),
    "place": frozenset({"bring"}),
}
_NAMES: Final[dict[str, frozenset[Purpose]]] = {
    **_WORDS,
    **dict.fromkeys(("source", "inbound", "receiving", "quelle", "aufnahme"), frozenset({"fetch"})),
    **dict.fromkeys(("sink", "destination", "outbound", "shipping", "senke", "abgabe"), frozenset({"bring"})),
    **dict.fromkeys(("battery", "ladestation"), frozenset({"charge"})),
    **dict.fromkeys(("waiting", "home"), frozenset({"park"})),
}


def action_types(properties: list[Item]) -> list[str]:
    """The types of all actions that property sets list, as they are written; one without a type tells nothing."""
    types = []
    for action in (action for entry in properties for kind in _LISTS for action in entry.entries(kind)):
        named = action if isinstance(action.value, str) else action.get("actionType")
        if named is None:
            action.warnings.add("An action has no actionType; it was left out.")
        else:
            types.append(named.text())
    return types


def purposes_of_action(action_type: str) -> frozenset[Purpose]:
    """What a place is for where robots do this; empty if the action has nothing to do with loads, charging or rest."""
    words = _words(action_type)
    return frozenset() if not _ENDS.isdisjoint(words) else _first(words, _VERBS)


def purposes_of_name(name: str) -> frozenset[Purpose]:
    """What a station of this name is for; empty if the name does not tell."""
    return _first(_words(name), _NAMES)


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _first(words: list[str], known: dict[str, frozenset[Purpose]]) -> frozenset[Purpose]:
    return next((known[word] for word in words if word in known), frozenset())
