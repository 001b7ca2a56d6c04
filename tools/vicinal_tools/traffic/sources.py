"""Where vehicles come from, as the demo is told: a town, and what drives in it, as a table that a file can hold."""

from pathlib import Path
from typing import Any, NamedTuple

from vicinal.errors import LocalProtocolError
from vicinal_cloud.traffic.network import Network, load

from .drivers import Traffic
from .tracks import shipped

__all__ = ["Source", "choose", "open_source"]

TRACKS = (".gpx", ".csv", ".nmea", ".jsonl", ".txt")
"""what is a track by its name; anything else is a log of a CAN bus"""


class Source(NamedTuple):
    network: Network
    vehicles: int
    table: dict[str, Any]


def choose(
    vehicles: int,
    network: str | None = None,
    sumo: str | None = None,
    replay: tuple[str, ...] = (),
    dbc: str | None = None,
    signal: str | None = None,
) -> Source:
    """LocalProtocolError says what is wrong with a file, and what to do."""
    town = None if network is None else load(Path(network))
    if sumo is not None:
        from .sumo import town_of

        if replay:
            raise LocalProtocolError("either --sumo or --replay, not both")
        file = Path(sumo).absolute()
        return Source(town or town_of(file), vehicles, {"kind": "sumo", "file": str(file)})
    if not replay:
        if dbc is not None or signal is not None:
            raise LocalProtocolError("--dbc and --signal say how fast a car was in a log of its bus: --replay LOG")
        return Source(town or shipped(), vehicles, {"kind": "simulated"})
    from . import replay as again

    files = [Path(one).absolute() for one in replay]
    logs = [file for file in files if file.suffix.lower() not in TRACKS]
    if logs and len(logs) < len(files):
        raise LocalProtocolError(f"{logs[0].name} is no track ({', '.join(TRACKS)}): either tracks or logs, not both")
    table: dict[str, Any] = {"kind": "tracks", "files": [str(file) for file in files]}
    if logs:
        if dbc is None or signal is None:
            raise LocalProtocolError(
                f"{logs[0].name} is a log of a CAN bus: it needs --dbc FILE --signal MESSAGE.SIGNAL"
            )
        table |= {"kind": "captures", "dbc": str(Path(dbc).absolute()), "signal": signal}
        for file in files:
            again.read_capture(file, Path(dbc), signal)
        return Source(town or shipped(), len(files), table)
    tracks = again.read_tracks(files)
    if town is None:
        usual = shipped()
        inside = all(usual.contains((fix.lat, fix.lon)) for one in tracks for fix in one.fixes)
        town = usual if inside else again.town_of(tracks)
    away = [one for one in tracks if not any(town.contains((fix.lat, fix.lon)) for fix in one.fixes)]
    if away:
        fix = away[0].fixes[0]
        raise LocalProtocolError(
            f"a track begins at {fix.lat / 1e7:.5f}, {fix.lon / 1e7:.5f}, which is not in {town.name}: --network FILE"
        )
    return Source(town, len(tracks), table)


def open_source(table: dict[str, Any], network: Network, seed: int, vehicles: int, speeders: float) -> Traffic:
    if table["kind"] == "sumo":
        from .sumo import SumoTraffic

        return SumoTraffic(Path(table["file"]), network, seed, vehicles, speeders)
    if table["kind"] == "simulated":
        from .world import World

        return World(network, seed, vehicles, speeders)
    from . import replay as again

    files = [Path(one) for one in table["files"]]
    if table["kind"] == "tracks":
        return again.TrackTraffic(again.read_tracks(files), seed)
    captures = [again.read_capture(file, Path(table["dbc"]), table["signal"]) for file in files]
    return again.CaptureTraffic(network, captures, seed)
