"""``agv-bridge scenarios``: list, show, validate, schema, import."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bridge.errors import AgvBridgeError, ScenarioError
from bridge.maps import DeliverySide, ImportOptions, LengthUnit, StationRules, import_layout
from bridge.mixed_roster import open_scenarios
from bridge.registry import open_world
from bridge.scenario import Scenario, load_scenario, scenario_json_schema, shipped_scenarios
from bridge.scenario_listening import listen_on
from bridge.specs import RoleSpec, WorldSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.layout_variation import LayoutVariant
from bridge.warehouse.traffic_plan import draw_borders, draw_speed_limits, special_borders, speed_zones
from trainers.config import train_config
from trainers.curriculum import require_steering
from trainers.scenario_config import describe_training, training_scenarios

__all__ = ["app"]

app = typer.Typer(help="List, show, check and import scenarios.", no_args_is_help=True)

ScenarioArgument = Annotated[str, typer.Argument(help="Name of a shipped scenario, or a scenario file or folder.")]


@app.command("list")
def list_scenarios() -> None:
    """The shipped scenarios, a line each."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "world", "description"):
        table.add_column(column)
    for name, path in shipped_scenarios().items():
        scenario = load_scenario(path)
        table.add_row(name, scenario.world, scenario.description)
    Console().print(table)


@app.command()
def show(
    scenario: ScenarioArgument,
    listen: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Unity: IPv4 address to listen on for a player that is asked.")
    ] = None,
    variant: Annotated[int | None, typer.Option(min=0, help="Draw this variant of the floor plan instead.")] = None,
) -> None:
    """The layout, the fleet, and each role's observation block by block."""
    loaded = listen_on(load_scenario(scenario), listen)
    world = open_world(loaded)
    console = Console()
    console.print(f"[bold]{loaded.name}[/bold] ({loaded.world}): {loaded.description}", highlight=False)
    console.print(f"file: {loaded.path}", highlight=False, soft_wrap=True)
    training = train_config(loaded)
    for line in describe_training(training.scenarios, training.curriculum):
        console.print(f"training: {line}", highlight=False, markup=False, soft_wrap=True)
    variants: Sequence[LayoutVariant] = getattr(world, "variants", ())
    layout = getattr(world, "layout", None)
    if variant is not None:
        if variant >= len(variants):
            raise ScenarioError(
                f"scenarios show: --variant: expected one of the scenario's {len(variants)} variants, counted from 0, "
                f"got {variant}. They are made by randomisation.layout."
            )
        layout = variants[variant].layout
    if layout is not None:
        _show_layout(console, layout)
    for number, varied in enumerate(variants):
        console.print(
            f"variant {number}: racks missing: {varied.num_missing}, moved: {varied.num_moved}, "
            f"blocked cells: {varied.num_blocked}",
            highlight=False,
        )
    _show_spec(console, world.spec, getattr(world, "config", None))


def _show_layout(console: Console, layout: Layout) -> None:
    console.print(
        f"\nlayout: {layout.height} x {layout.width} cells of {layout.cell_size_m} m, {layout.num_free} free, "
        f"{len(layout.pickups)} pick-ups (S), {len(layout.deliveries)} deliveries (E), "
        f"{len(layout.parking)} parking places (P), {len(layout.chargers)} chargers (C)",
        highlight=False,
    )
    _show_drawing(console, layout.to_drawing())
    borders = special_borders(layout)
    if len(borders.one_way) or len(borders.closed):
        console.print(
            f"borders of cells: {len(borders.one_way)} one way (> < v ^), {len(borders.closed)} closed (| -)",
            highlight=False,
        )
        _show_drawing(console, draw_borders(layout, borders))
    if zones := speed_zones(layout):
        drawing, letters = draw_speed_limits(layout, zones)
        legend = "; ".join(
            f"{letter} {' and '.join(f'{limit:g}' for limit in limits)} m/s" for letter, limits in letters.items()
        )
        console.print(f"speed limits: {legend}", highlight=False)
        _show_drawing(console, drawing)


def _show_drawing(console: Console, rows: Sequence[str]) -> None:
    for row in rows:
        console.print(f"  {row}", highlight=False, markup=False, soft_wrap=True)


def _show_spec(console: Console, spec: WorldSpec, config: object) -> None:
    fleet = config.fleet if isinstance(config, WarehouseConfig) else ()
    footprints = {role.role: f", footprint: {role.footprint}" for role in fleet}
    for role in spec.roles:
        _show_role(console, role, footprints.get(role.name, ""))
    console.print(f"\nglobal state for critics: {spec.state_size} values", highlight=False)
    if spec.metrics:
        console.print("figures per episode:", highlight=False)
        for metric in spec.metrics:
            console.print(f"  {metric.name}: {metric.description}", highlight=False)


def _show_role(console: Console, role: RoleSpec, footprint: str) -> None:
    action = role.action
    parts = [f"{action.num_continuous} continuous in [-1, 1]"] if action.num_continuous else []
    parts += [f"discrete branches of {action.discrete_branches}"] if action.discrete_branches else []
    console.print(f"\nrole [bold]{role.name}[/bold]: {role.num_slots} robots{footprint}", highlight=False)
    names = f" ({', '.join(action.names)})" if action.names else ""
    console.print(f"action: {' and '.join(parts)}{names}", highlight=False)
    console.print(f"observation: {role.observation.size} values, layout {role.observation.digest}", highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("offset", "block", "size", "unit", "range", "meaning"):
        table.add_column(column)
    for block in role.observation.blocks:
        low = "-inf" if block.low is None else f"{block.low:g}"
        high = "inf" if block.high is None else f"{block.high:g}"
        fields = f" [{', '.join(block.fields)}]" if block.fields else ""
        start = role.observation.slice_of(block.name).start
        size = "x".join(map(str, block.shape or (block.size,)))
        meaning = f"{block.description}{fields}"
        table.add_row(str(start), block.name, size, block.unit, rf"\[{low}, {high}]", _escaped(meaning))
    console.print(table)


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")


@app.command()
def validate(files: Annotated[list[str], typer.Argument(help="Scenario names, files or folders.")]) -> None:
    """Check files: schema, layout, reachability of every station and parking place, training settings."""
    faults = []
    for file in files:
        try:
            scenario = load_scenario(file)
            _check(scenario)
        except AgvBridgeError as error:
            faults.append(str(error))
        else:
            print(f"{scenario.path}: ok")
    if faults:
        raise ScenarioError("\n".join(faults))


def _check(scenario: Scenario) -> None:
    config = train_config(scenario)
    for warning in getattr(open_world(scenario), "warnings", ()):
        print(f"warning: {scenario.path}: {warning}", file=sys.stderr)
    world = open_scenarios(training_scenarios(scenario, config.scenarios, config.curriculum))
    if config.curriculum:
        require_steering(config.curriculum, world.spec, f"{scenario.path}: train.curriculum")


@app.command()
def schema() -> None:
    """JSON Schema of the format, for editors."""
    print(json.dumps(scenario_json_schema(), indent=2))


@app.command("import")
def import_file(
    file: Annotated[
        Path,
        typer.Argument(
            help="MovingAI .map or .scen, League of Robot Runners .json, VDMA LIF .json, Open-RMF .building.yaml or "
            "navigation graph; told apart by content."
        ),
    ],
    robots: Annotated[int | None, typer.Option(min=1, help="Number of robots; as the file states by default.")] = None,
    out: Annotated[Path | None, typer.Option(help="Scenario folder to write; ./<file's stem> by default.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the scenario; the file's stem by default.")] = None,
    cell_size_m: Annotated[
        float | None, typer.Option(min=0.01, help="Edge length of a cell in m; 1.0, or by the width of the lanes.")
    ] = None,
    pickups: Annotated[int | None, typer.Option(min=1, help="Pick-up cells; two per robot by default.")] = None,
    deliveries: Annotated[
        int | None, typer.Option(min=1, help="Delivery cells; one per four robots by default.")
    ] = None,
    side: Annotated[DeliverySide, typer.Option(help=".map: border, or borders, of the deliveries.")] = "left-right",
    keep_marks: Annotated[
        bool | None,
        typer.Option("--keep-marks/--no-keep-marks", help=".map: keep stations that it marks with S, E, P, C."),
    ] = None,
    map_file: Annotated[Path | None, typer.Option("--map", help=".scen: its map.")] = None,
    rescale: Annotated[bool, typer.Option("--rescale", help=".scen: stretch it to a map of another size.")] = False,
    level: Annotated[str | None, typer.Option(help="Roads: level; the one with the most lanes by default.")] = None,
    unit: Annotated[
        LengthUnit | None, typer.Option(help="LIF: unit of its lengths; m, or mm where m makes no sense, by default.")
    ] = None,
    vehicle_type: Annotated[str | None, typer.Option(help="LIF: the one with the most edges by default.")] = None,
    graph_index: Annotated[
        int | None, typer.Option(min=0, help="Open-RMF building: the one with the most lanes by default.")
    ] = None,
    vehicle_width_m: Annotated[float | None, typer.Option(help="Roads: width of a vehicle in m; 0.7.")] = None,
    lane_width_m: Annotated[float | None, typer.Option(help="Roads: width of a lane in m; vehicle + 0.3.")] = None,
    two_way: Annotated[
        bool | None,
        typer.Option(
            "--two-way/--no-two-way",
            help="Roads: drive one-way lanes both ways; by default those without a way back, if most places need it.",
        ),
    ] = None,
    derive_stations: Annotated[
        bool, typer.Option(help="Roads: make the kinds of stations that the file lacks, or refuse it.")
    ] = True,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier import.")] = False,
) -> None:
    """Turn a map file of any supported format into a scenario folder."""
    options = ImportOptions(
        cell_size_m=cell_size_m,
        stations=StationRules(pickups, deliveries, side, keep_marks),
        map_file=map_file,
        rescale=rescale,
        level=level,
        unit=unit,
        vehicle_type=vehicle_type,
        graph_index=graph_index,
        vehicle_width_m=vehicle_width_m,
        lane_width_m=lane_width_m,
        two_way=two_way,
        derive_stations=derive_stations,
    )
    imported = import_layout(
        file, out_folder=out or Path(file.stem), robots=robots, name=name, options=options, overwrite=overwrite
    )
    for warning in imported.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    _check(load_scenario(imported.path))
    print(f"wrote {imported.path}; try: agv-bridge scenarios show {imported.path.parent}")
