"""Finding and starting builds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bridge.errors import UnityPlayerDiedError
from bridge.unity.player_process import PlayerProcess, describe_exit, player_arguments, resolve_player


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize(
    ("platform", "given", "there"),
    [
        ("linux", "my.app.d/scene.exe-1", "my.app.d/scene.exe-1.x86_64"),
        ("linux", "scene[1]*", "scene[1]*.x86"),
        ("linux", "scene.x86_64", "scene.x86_64"),
        ("darwin", "scene", "scene.app/Contents/MacOS/scene"),
        ("darwin", "scene.app", "scene.app/Contents/MacOS/Renamed"),
        ("win32", "scene", "scene.exe"),
        ("win32", "folder", "folder/Scene.exe"),
    ],
)
def test_resolve_player_finds_a_build_when_it_is_named_as_users_do(
    tmp_path: Path, platform: str, given: str, there: str
) -> None:
    executable = touch(tmp_path / there)
    touch(tmp_path / "folder" / "UnityCrashHandler64.exe")
    assert resolve_player(tmp_path / given, platform) == executable


def test_resolve_player_lists_what_it_tried_when_there_is_no_build(tmp_path: Path) -> None:
    touch(tmp_path / "scene_backup.x86_64")
    with pytest.raises(
        UnityPlayerDiedError, match=r"expected a Unity build, got .*scene'.*scene.x86_64, .*scene.x86\."
    ):
        resolve_player(tmp_path / "scene", "linux")


def test_player_arguments_follow_unitys_order_when_all_are_given() -> None:
    arguments = player_arguments(
        5010, no_graphics=True, log_file=Path("/logs/Player-0.log"), additional=["--seed", "3"]
    )
    wanted = "-nographics -batchmode --mlagents-port 5010 -logFile /logs/Player-0.log --seed 3"
    assert arguments == wanted.split()
    assert player_arguments(5010) == ["--mlagents-port", "5010"]


def test_player_process_says_what_to_do_when_the_file_is_not_executable(tmp_path: Path) -> None:
    build = touch(tmp_path / "scene.x86_64")
    with pytest.raises(UnityPlayerDiedError, match=r"got '.*scene.x86_64': Permission denied. .*chmod \+x"):
        PlayerProcess([str(build)], output_file=tmp_path / "out")


def test_close_kills_a_player_when_it_does_not_end_by_itself(tmp_path: Path) -> None:
    process = PlayerProcess([sys.executable, "-c", "import time; time.sleep(60)"], output_file=tmp_path / "out")
    assert process.exit_code() is None
    assert process.close(grace_s=0.0) == -9
    assert process.close(grace_s=0.0) == -9


def test_log_tail_shows_the_last_lines_when_the_player_wrote_many(tmp_path: Path) -> None:
    process = PlayerProcess(
        [sys.executable, "-c", "print('\\n'.join(map(str, range(9000))))"], output_file=tmp_path / "out"
    )
    assert process.wait(20) == 0
    lines = process.log_tail().splitlines()
    assert lines[0].strip() == f"{tmp_path / 'out'}:"
    assert [line.strip() for line in lines[1:]] == [str(number) for number in range(8980, 9000)]
    process.close(0.0)


def test_describe_exit_names_the_signal_when_there_was_one() -> None:
    assert describe_exit(-11) == "exit code -11 (SIGSEGV)"
    assert describe_exit(3) == "exit code 3"
