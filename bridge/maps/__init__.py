"""Map files in, layouts out; and a whole scenario from a map file."""

from bridge.maps.files import load_layout_file, write_layout_file
from bridge.maps.formats import read_layout
from bridge.maps.import_options import Imported, ImportOptions, LengthUnit
from bridge.maps.importing import ImportedScenario, import_layout, import_map
from bridge.maps.stations import DeliverySide, StationRules, derive_stations

__all__ = [
    "DeliverySide",
    "ImportOptions",
    "Imported",
    "ImportedScenario",
    "LengthUnit",
    "StationRules",
    "derive_stations",
    "import_layout",
    "import_map",
    "load_layout_file",
    "read_layout",
    "write_layout_file",
]
