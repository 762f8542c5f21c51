"""Map files in, layouts out; and a whole scenario from a map file."""

from bridge.maps.files import load_layout_file, write_layout_file
from bridge.maps.importing import import_map
from bridge.maps.stations import DeliverySide, StationRules, derive_stations

__all__ = ["DeliverySide", "StationRules", "derive_stations", "import_map", "load_layout_file", "write_layout_file"]
