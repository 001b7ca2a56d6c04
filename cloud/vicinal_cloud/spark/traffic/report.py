"""A page about the tables: how fast each segment was by hour, which were worst, offences, and how good the data is.

One HTML file with its pictures in it as SVG: it can be sent by mail and read in ten years. Spark is not needed.
"""

from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from .reading import read

__all__ = ["page"]

WORST = 25
# Speed against free flow, as traffic maps have it: TomTom's classes.
_CLASSES = [(0.6, "#b71c1c"), (0.7, "#e53935"), (0.8, "#fb8c00"), (0.9, "#fdd835"), (9e9, "#43a047")]
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; color: #222 }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: .2rem .9rem .2rem 0; text-align: left; border-bottom: 1px solid #ddd } td.n { text-align: right }
svg text { font: 11px system-ui, sans-serif; fill: #333 } .note { color: #666 }
@media (prefers-color-scheme: dark) {
 body { background: #16181b; color: #ddd } svg text { fill: #ccc } td, th { border-color: #333 } }
"""


def page(tables: Path) -> str:
    """Of one commit. Raises VicinalError where there are none, or they cannot be read."""
    notes, found = read(tables, "segment_speeds", "offences")
    speeds, offences = found["segment_speeds"], found["offences"]
    counts, zone = notes.get("counts", {}), notes.get("timezone", "UTC")
    parts = [
        f"<p>{counts.get('read', 0):,} events read, {counts.get('position', 0):,} positions.</p>",
        f"<h2>Speed of segments by hour</h2><p>Of the town's clock ({escape(zone)}).</p>",
        _heat(speeds, zone),
        "<h2>Worst segments</h2>",
        _worst(speeds),
        "<h2>Offences by area</h2>",
        _bars(offences),
        "<h2>Data quality</h2>",
        _quality(counts),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Traffic</title><style>{_STYLE}</style>'
        '<meta name="viewport" content="width=device-width">'
        f"<h1>Traffic</h1>\n{chr(10).join(parts)}\n</html>\n"
    )


def _nothing() -> str:
    return '<p class="note">Nothing here.</p>'


def _weighted(speeds: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    work = speeds.assign(
        weight=speeds["reports"] * speeds["free_flow_ratio"], kmh=speeds["reports"] * speeds["mean_kmh"]
    )
    found = work.groupby(keys, as_index=False)[["weight", "kmh", "reports"]].sum()
    return found.assign(ratio=found["weight"] / found["reports"], kmh=found["kmh"] / found["reports"])


def _heat(speeds: pd.DataFrame, zone: str) -> str:
    if speeds.empty:
        return _nothing()
    minutes = pd.to_datetime(speeds["minute_time"], utc=True).dt.tz_convert(zone)
    by_hour = _weighted(speeds.assign(hour=minutes.dt.hour), ["segment_id", "hour"])
    whole = _weighted(speeds, ["segment_id"]).sort_values(["ratio", "segment_id"]).head(WORST)
    names = list(whole["segment_id"])
    wide, high, left = 26, 18, 130
    shapes = [f'<text x="{left + hour * wide + 4}" y="11">{hour:02}</text>' for hour in range(0, 24, 2)]
    for row, name in enumerate(names):
        top = 18 + row * high
        shapes.append(f'<text x="0" y="{top + 12}">{escape(name[:20])}</text>')
        for one in by_hour[by_hour["segment_id"] == name].itertuples():
            colour = next(colour for most, colour in _CLASSES if one.ratio < most)
            flow = f"{one.kmh:.1f} km/h, {one.ratio:.0%} of free flow"
            title = f"{escape(name)} {one.hour:02}:00: {flow}, {one.reports} reports"
            shapes.append(
                f'<rect x="{left + one.hour * wide}" y="{top}" width="{wide - 2}" height="{high - 2}" fill="{colour}">'
                f"<title>{title}</title></rect>"
            )
    size = f'viewBox="0 0 {left + 24 * wide} {20 + len(names) * high}"'
    legend = "red below 60 % of free flow, then 70, 80 and 90 %; green above"
    return f'<svg {size} role="img" aria-label="speed by hour">{"".join(shapes)}</svg><p class="note">{legend}</p>'


def _worst(speeds: pd.DataFrame) -> str:
    if speeds.empty:
        return _nothing()
    whole = _weighted(speeds, ["segment_id", "direction"]).sort_values(["ratio", "segment_id", "direction"]).head(10)
    rows = [
        (one.segment_id, one.direction, f"{one.kmh:.1f}", f"{one.ratio:.0%}", f"{one.reports:,}")
        for one in whole.itertuples()
    ]
    return _rows(("segment", "direction", "mean km/h", "of free flow", "reports"), rows)


def _bars(offences: pd.DataFrame) -> str:
    if offences.empty:
        return _nothing()
    counts = offences.groupby("area").agg(count=("vehicle_id", "size"), top=("over_kmh", "max")).sort_values("count")
    most, shapes = int(counts["count"].max()), []
    for row, one in enumerate(reversed(list(counts.itertuples()))):
        width = max(2, round(420 * one.count / most))
        shapes.append(
            f'<text x="0" y="{row * 22 + 14}">{escape(str(one.Index))}</text>'
            f'<rect x="130" y="{row * 22 + 2}" width="{width}" height="16" fill="#3f6fb5"></rect>'
            f'<text x="{136 + width}" y="{row * 22 + 14}">{one.count:,} (up to {one.top:.0f} km/h over)</text>'
        )
    return f'<svg viewBox="0 0 754 {22 * len(counts) + 4}" role="img" aria-label="offences">{"".join(shapes)}</svg>'


def _quality(counts: dict[str, int]) -> str:
    read = counts.get("read", 0)
    rows = [
        (name, f"{count:,}", f"{count / read:.2%}" if read else "")
        for name, count in counts.items()
        if count and name != "read"
    ]
    return _rows(("what became of events", "count", "of all"), rows)


def _rows(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    if not rows:
        return _nothing()
    lines = ["<tr>" + "".join(f"<th>{escape(one)}</th>" for one in head) + "</tr>"]
    for row in rows:
        cells = [f"<td{'' if at == 0 else ' class=n'}>{escape(str(one))}</td>" for at, one in enumerate(row)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(lines)}</table>"
