"""Rules on the shape of the code that no type checker knows: arrows, cycles, names, sizes, public names."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("bridge", "trainers")
MAX_LINES = 500
EXTRAS = ("torch", "tensorboard", "matplotlib", "mujoco", "gymnasium_robotics", "mpe2", "ray")
RL_LIBRARIES = {"gymnasium", "pettingzoo", "torch", "mlagents_envs"}
DUMPING_GROUNDS = {"utils", "util", "common", "commons", "helpers", "helper", "misc", "base", "shared", "stuff"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8"), str(path)) for name, path in SOURCES.items()}


def imported(module: str, node: ast.stmt) -> Iterator[str]:
    """Modules that an import statement names; ``from package import name`` gives a submodule where there is one."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        source = node.module or ""
        if node.level:
            package = module if SOURCES[module].name == "__init__.py" else module.rpartition(".")[0]
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            source = ".".join([*above, *([source] if source else [])])
        for alias in node.names:
            inner = f"{source}.{alias.name}"
            yield inner if inner in SOURCES else source


def imports_anywhere(module: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(TREES[module]):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((name, node.lineno) for name in imported(module, node))


def statements_at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported, without those for the type checker alone."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from statements_at_import([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from statements_at_import([*node.body, *node.orelse, *node.finalbody])
            for handler in node.handlers:
                yield from statements_at_import(handler.body)
        elif isinstance(node, (ast.With, ast.ClassDef)):
            yield from statements_at_import(node.body)


def offenders(package: str, forbidden: set[str]) -> list[str]:
    """Imports of forbidden top-level packages by modules of a package."""
    return [
        f"{SOURCES[module].relative_to(ROOT)}:{line} imports {name}"
        for module in SOURCES
        if module == package or module.startswith(f"{package}.")
        for name, line in imports_anywhere(module)
        if name.split(".")[0] in forbidden
    ]


def test_bridge_never_imports_trainers_or_torch() -> None:
    assert offenders("bridge", {"trainers", "torch"}) == []


def test_warehouse_knows_no_rl_library() -> None:
    assert offenders("bridge.warehouse", RL_LIBRARIES) == []


def test_modules_import_each_other_without_cycles_at_import_time() -> None:
    graph = {
        module: {
            name
            for node in statements_at_import(TREES[module].body)
            for name in imported(module, node)
            if name in SOURCES and name != module
        }
        for module in SOURCES
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(reversed(error.args[1]))}", pytrace=False)


def test_core_is_imported_without_any_extra() -> None:
    """Every module of bridge, the configuration and the command line, with the extras made unimportable."""
    modules = [name for name in SOURCES if name.startswith("bridge") and not name.endswith("__main__")]
    modules += ["trainers", "trainers.config", "trainers.cli"]
    program = (
        "import importlib, sys\n"
        f"for name in {EXTRAS!r}: sys.modules[name] = None\n"
        "failed = []\n"
        f"for name in {modules!r}:\n"
        "    try: importlib.import_module(name)\n"
        "    except ImportError as error: failed.append(f'{name}: {error}')\n"
        "print('\\n'.join(failed))\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n") == ["", ""], result.stdout


def test_modules_are_named_after_what_they_hold() -> None:
    named = {module: DUMPING_GROUNDS.intersection(module.split(".")) for module in SOURCES}
    assert {module for module, words in named.items() if words} == set()


def python_files() -> list[Path]:
    return [path for folder in (*PACKAGES, "tests") for path in sorted((ROOT / folder).rglob("*.py"))]


def test_files_stay_readable() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert {str(path.relative_to(ROOT)): length for path, length in lengths.items() if length > MAX_LINES} == {}


def listed_names(tree: ast.Module) -> list[str] | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            names = ast.literal_eval(node.value)
            assert isinstance(names, (list, tuple))
            return [str(name) for name in names]
    return None


def defined_names(tree: ast.Module) -> set[str]:
    """Every name that a module binds at import."""
    names: set[str] = set()
    for node in statements_at_import(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
    return names


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a function belongs to the command line: it is reached through the application, not by its name."""
    calls = [decorator.func for decorator in node.decorator_list if isinstance(decorator, ast.Call)]
    return any(isinstance(call, ast.Attribute) and call.attr in ("command", "callback") for call in calls)


def public_names(module: str) -> set[str]:
    """Names that ``__all__`` must list: classes, functions and constants; in a package also what it re-exports.

    Type aliases and type variables (``Float32``, ``Model``) are left to each module.
    """
    tree = TREES[module]
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.update(() if is_command(node) else (node.name,))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper())
        elif isinstance(node, ast.ImportFrom) and SOURCES[module].name == "__init__.py":
            inside = node.level == 1 or (node.module or "").startswith(f"{module}.")
            names.update(alias.asname or alias.name for alias in node.names if inside)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("module", [name for name in SOURCES if not name.endswith("__main__")])
def test_module_lists_its_public_names(module: str) -> None:
    listed, public = listed_names(TREES[module]), public_names(module)
    if listed is None:
        assert not public, f"{module} has no __all__ but defines {sorted(public)}"
        return
    assert len(listed) == len(set(listed))
    assert public - set(listed) == set(), "missing from __all__"
    if "__getattr__" not in defined_names(TREES[module]):
        assert set(listed) - defined_names(TREES[module]) == set(), "in __all__ but not defined"


WORKPLACE = re.compile(r"/work/|\.\./shared|\bshared/(facts|maps)\b|\b(DESIGN|STYLE)\.md\b|\breviewers?\b")


def test_repository_names_no_workplace() -> None:
    """Outside the tests, which may look for public maps beside the checkout, no path of some machine."""
    folders = [*PACKAGES, "scenarios", "docs", "unity_project", ".ci"]
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file() and path.suffix in {".md", ".toml", ".txt", ""}]
    found = []
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        named = [f"{number}: {line.strip()}" for number, line in enumerate(lines, 1) if WORKPLACE.search(line)]
        found += [f"{path.relative_to(ROOT)}:{line}" for line in named]
    assert found == []


def test_the_rules_see_what_they_forbid() -> None:
    """The walkers on code that breaks the rules, so that they cannot pass by seeing nothing."""
    assert {"bridge.specs", "bridge.export.writer", "trainers"} <= set(SOURCES)
    tree = ast.parse(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\n"
        "try:\n    import numpy\nexcept ImportError:\n    import math\n"
        "def f():\n    import json\n"
    )
    seen = {name for node in statements_at_import(tree.body) for name in imported("bridge.specs", node)}
    assert seen == {"typing", "numpy", "math"}
    relative = ast.parse("from . import contract\nfrom .writer import write_actor\nfrom .. import specs").body
    assert [list(imported("bridge.export.check", node)) for node in relative] == [
        ["bridge.export.contract"],
        ["bridge.export.writer"],
        ["bridge.specs"],
    ]
    assert list(imported("bridge.export", relative[0])) == ["bridge.export.contract"]
    assert "OnnxFleetPolicy" in public_names("bridge.export")
    assert "MAX_MODEL_BYTES" in public_names("bridge.export.contract")
    assert WORKPLACE.search("see /work/x")
    assert not WORKPLACE.search("a network/workshop")
