"""A deployment as a picture: text for a terminal, SVG for a page.

    market
    └─ (World)
       └─ (M1)  out: subject = 'Quote', in: nothing

Scopes are round and components square, as in the paper; a superscope is above its members. A scope in several
superscopes is drawn once in the SVG, and in the text under each, with its members under the first.
"""

from html import escape

from vicinal.scope.graph import ScopeGraph

from .words import edge_words, scope_words, short

__all__ = ["as_svg", "as_text"]

_WIDTH, _HEIGHT, _GAP, _ROW = 132, 44, 18, 104
_STYLE = (
    "text{font:12px sans-serif;text-anchor:middle}.small{font-size:9px;fill:#555}.edge{stroke:#888;fill:none}"
    ".mapped{stroke-dasharray:5 3}.scope{fill:#eef4fb;stroke:#36648b}.session{stroke-dasharray:4 2;stroke-width:2}"
    ".component{fill:#fff;stroke:#333}.name{font-weight:bold;font-size:14px}"
)


def as_text(graph: ScopeGraph) -> str:
    lines: list[str] = []
    for dimension in graph.dimensions:
        lines.append(dimension + ("   (advanced)" if dimension == graph.advanced else ""))
        shown: set[str] = set()
        tops = sorted(name for name, one in graph.scopes.items() if one.dimension == dimension and not one.supers)
        for at, name in enumerate(tops):
            _branch(graph, name, None, "", at == len(tops) - 1, shown, lines)
    outside = sorted(name for name, one in graph.components.items() if not one.scopes)
    if outside:
        lines.append("in no scope")
        lines += [f"{'└─' if name == outside[-1] else '├─'} [{name}]" for name in outside]
    return "\n".join(lines)


def _branch(
    graph: ScopeGraph, name: str, above: str | None, indent: str, last: bool, shown: set[str], lines: list[str]
) -> None:
    scope = graph.scopes[name]
    words = ([] if above is None else edge_words(graph, name, above)) + scope_words(scope)
    again = name in shown
    shown.add(name)
    members, subs = graph.members.get(name, []), graph.subs.get(name, [])
    if again and (members or subs):
        words.append("see above")
    lines.append(f"{indent}{'└─' if last else '├─'} ({name}){'  ' if words else ''}{', '.join(words)}")
    if again:
        return
    indent += "   " if last else "│  "
    for at, sub in enumerate(subs):
        _branch(graph, sub, name, indent, at == len(subs) - 1 and not members, shown, lines)
    for member in members:
        component = graph.components[member]
        says = [] if component.publishes is None else [f"publishes {component.publishes}"]
        hears = [] if component.subscribes is None else [f"subscribes to {component.subscribes}"]
        rest = "  " + ", ".join(says + hears) if says or hears else ""
        lines.append(f"{indent}{'└─' if member == members[-1] else '├─'} [{member}]{rest}")


def as_svg(graph: ScopeGraph) -> str:
    """One panel for each dimension, below each other."""
    parts: list[str] = []
    width, top = 0, 0
    for dimension in graph.dimensions:
        panel, right, bottom = _panel(graph, dimension, top)
        parts += panel
        width, top = max(width, right), bottom
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}">'
    return "\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>", ""])


def _levels(graph: ScopeGraph, dimension: str) -> list[list[str]]:
    """Scopes and components in rows: each below all that it is in, as high as that allows."""
    level: dict[str, int] = {}
    left = [name for name in sorted(graph.scopes) if graph.scopes[name].dimension == dimension]
    while left:
        ready = [name for name in left if all(above in level for above in graph.scopes[name].supers)]
        for name in ready:
            level[name] = max((level[above] + 1 for above in graph.scopes[name].supers), default=0)
        left = [name for name in left if name not in level]
    for name, component in sorted(graph.components.items()):
        inside = graph.scopes_of(component, dimension)
        if inside:
            level[name] = max(level[scope] for scope in inside) + 1
    rows: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name, at in level.items():
        rows[at].append(name)
    return rows


def _above(graph: ScopeGraph, name: str, dimension: str) -> list[str]:
    if name in graph.scopes:
        return list(graph.scopes[name].supers)
    return graph.scopes_of(graph.components[name], dimension)


def _panel(graph: ScopeGraph, dimension: str, top: int) -> tuple[list[str], int, int]:
    rows = _levels(graph, dimension)
    right = max((len(row) for row in rows), default=1) * (_WIDTH + _GAP) + _GAP
    place: dict[str, tuple[int, int]] = {}
    for at, row in enumerate(rows):
        # Under the middle of what it is in: fewer lines cross.
        middle = {name: _middle([place[one][0] for one in _above(graph, name, dimension)]) for name in row}
        step = right / len(row)
        for column, name in enumerate(sorted(row, key=lambda name: (middle[name], name))):
            place[name] = (int(step * (column + 0.5)), top + 40 + at * _ROW + _HEIGHT // 2)
    found = [f'<text class="name" x="{right // 2}" y="{top + 24}">{escape(dimension)}</text>']
    for name, (x, y) in place.items():
        for above in _above(graph, name, dimension):
            found.append(_line(graph, name, above, (x, y), place[above]))
    for name, (x, y) in place.items():
        found.append(_box(graph, name, x, y))
    return found, right, top + 40 + max(len(rows), 1) * _ROW


def _middle(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0


def _line(graph: ScopeGraph, name: str, above: str, at: tuple[int, int], to: tuple[int, int]) -> str:
    words = edge_words(graph, name, above) if name in graph.scopes else []
    mapped = " mapped" if "mapped" in words else ""
    ends = f'x1="{at[0]}" y1="{at[1] - _HEIGHT // 2}" x2="{to[0]}" y2="{to[1] + _HEIGHT // 2}"'
    title = escape(f"{name} in {above}" + (f": {', '.join(words)}" if words else ""))
    line = f'<line class="edge{mapped}" {ends}><title>{title}</title></line>'
    if not words:
        return line
    x, y = at[0] + (to[0] - at[0]) // 3, at[1] - _HEIGHT // 2 + (to[1] - at[1] + _HEIGHT) // 3
    label = "".join(
        f'<text class="small" x="{x}" y="{y + 10 * row - 4}">{escape(short(one, 34))}</text>'
        for row, one in enumerate(words[:2])
    )
    return line + label


def _box(graph: ScopeGraph, name: str, x: int, y: int) -> str:
    scope = graph.scopes.get(name)
    if scope is None:
        component = graph.components[name]
        words = [f"publishes {component.publishes}"] if component.publishes is not None else []
        words += [f"subscribes to {component.subscribes}"] if component.subscribes is not None else []
    else:
        words = scope_words(scope)
    kind = "component" if scope is None else "scope session" if scope.session else "scope"
    corner = 0 if scope is None else _HEIGHT // 2
    shape = (
        f'<rect class="{kind}" x="{x - _WIDTH // 2}" y="{y - _HEIGHT // 2}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'rx="{corner}"><title>{escape("; ".join([name, *words]))}</title></rect>'
    )
    small = f'<text class="small" x="{x}" y="{y + 14}">{escape(short("; ".join(words), 26))}</text>' if words else ""
    return f'{shape}<text x="{x}" y="{y + (-1 if words else 4)}">{escape(short(name, 18))}</text>{small}'
