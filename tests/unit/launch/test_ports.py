"""PortArgs and RunDirectory: no two servers share an address, and the dead leave nothing behind."""

import os
import stat
from pathlib import Path

import msgspec
import pytest

from banyan.launch.ports import FALLBACK, LONGEST_NAME, MAX_PATH, PortArgs, RunDirectory, shortest_parent, sweep


def ports(directory: str = "/run/banyan-x", dp_size: int = 2) -> PortArgs:
    return PortArgs(directory=directory, dp_size=dp_size, num_fronts=3)


def test_every_channel_has_its_own_address() -> None:
    args = ports()
    addresses = [args.requests, args.tokens]
    addresses += [args.replica(index) for index in range(2)] + [args.front(index) for index in range(3)]
    assert len(set(addresses)) == len(addresses) == 7
    assert all(address.startswith("ipc:///run/banyan-x/") for address in addresses)


def test_without_a_controller_fronts_speak_to_the_only_replica() -> None:
    assert ports(dp_size=1).requests == ports(dp_size=1).replica(0)
    assert ports(dp_size=2).requests not in (ports().replica(0), ports().replica(1))


def test_ports_survive_the_journey_to_a_child() -> None:
    assert msgspec.json.decode(msgspec.json.encode(ports()), type=PortArgs) == ports()


def test_addresses_fit_into_a_socket_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = shortest_parent()
    longest = PortArgs(directory=str(parent / ("banyan-" + "x" * 8)), dp_size=64, num_fronts=64)
    names = [longest.replica(63), longest.front(63), longest.requests, longest.tokens]
    assert max(len(name.removeprefix("ipc://")) for name in names) <= MAX_PATH
    assert max(len(Path(name).name) for name in names) <= LONGEST_NAME
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    assert shortest_parent() == FALLBACK


def test_a_run_directory_is_private_and_two_never_clash(tmp_path: Path) -> None:
    first, second = RunDirectory.create(tmp_path), RunDirectory.create(tmp_path)
    assert first.path != second.path
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o700
    (first.path / "socket").touch()
    first.remove()
    first.remove()
    assert sorted(tmp_path.iterdir()) == [second.path]
    second.remove()


def test_the_directory_of_a_dead_server_is_swept_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    living = RunDirectory.create(tmp_path)
    dead = tmp_path / "banyan-dead"
    dead.mkdir()
    (dead / "front0").touch()
    (tmp_path / "banyan-file").touch()
    (tmp_path / "banyan-link").symlink_to(tmp_path)
    (tmp_path / "other").mkdir()
    assert sweep(tmp_path) == [dead]
    assert {path.name for path in tmp_path.iterdir()} == {"banyan-file", "banyan-link", "other", living.path.name}
    living.remove()


def test_a_directory_of_another_user_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "banyan-theirs").mkdir()
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert sweep(tmp_path) == []
