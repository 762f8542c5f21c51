"""Map files in, layouts out; and a whole scenario from a map file."""

from bridge.maps.files import load_layout_file, write_layout_file
from bridge.maps.importing import import_map
from bridge.maps.stations import StationRules, derive_stations

__all__ = ["StationRules", "derive_stations", "import_map", "load_layout_file", "write_layout_file"]
