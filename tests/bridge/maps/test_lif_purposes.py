"""What actions and names of stations say that a place is for."""

from __future__ import annotations

import pytest

from bridge.maps.lif_purposes import purposes_of_action, purposes_of_name


@pytest.mark.parametrize(
    ("purposes", "actions"),
    [
        ({"fetch"}, "pick Pick PICK pick_pallet pickUp loadPallet startLoading fetch takeLoad collect-2"),
        ({"bring"}, "drop dropOff DROP unload unloadPallet deliver placeLoad putDown deposit_load dropLoad"),
        ({"fetch", "bring"}, "transfer handover transferPallet"),
        ({"charge"}, "startCharging start-charging charge Charge rechargeBattery"),
        ({"park"}, "park startParking"),
        (set(), "stopCharging cancelPick endLoading finePositioning placeholder detectObject beep battery 12"),
    ],
)
def test_purposes_of_action_understands_usual_types(purposes: set[str], actions: str) -> None:
    for action in actions.split():
        assert (action, purposes_of_action(action)) == (action, purposes)


@pytest.mark.parametrize(
    ("purposes", "names"),
    [
        ({"fetch"}, ["PickStation1", "SOURCE_01", "Inbound 3", "Quelle 2", "Load station"]),
        ({"bring"}, ["DropStation1", "Delivery A", "Senke 4", "OUTBOUND-7", "Unload"]),
        (
            {"charge"},
            ["Battery Charging Station", "Ladestation 2", "Station to charge the battery or park the vehicle"],
        ),
        ({"park"}, ["PARKING-2", "Parking place", "Home", "waiting area"]),
        (set(), ["S01", "Station 7", "place 3", "", "Take-off"]),
    ],
)
def test_purposes_of_name_understands_usual_names(purposes: set[str], names: list[str]) -> None:
    for name in names:
        assert (name, purposes_of_name(name)) == (name, purposes)
