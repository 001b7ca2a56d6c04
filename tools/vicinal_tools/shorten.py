"""Fewer names for a device: those that nobody outside can see are called the same in every file.

    def _gap(announcement, now):  ...  ─▶  def _f0(_0, now):  ...          `now` is a name that is there in any case
    self._announced                    ─▶  self._a3

MicroPython keeps every name that it has met, for ever: of functions, of attributes, and of parameters, as somebody may
call with them. And the tables that it keeps them in double: with the 1,261st name comes one of ten kilobytes. So
functions and attributes that are a file's own lose their names, and such functions those of their parameters.

It is done in the text, and lines keep their numbers. What is not sure is left alone: names that are used as keywords
anywhere, or in strings, or in f-strings (whose places Python 3.11 does not tell), or twice in nested functions;
attributes of anything but self, and all of a file whose classes inherit from those of another, or are inherited from.
"""

import ast
from collections import Counter
from collections.abc import Iterable

__all__ = ["Visible", "shorten"]

_Function = ast.FunctionDef | ast.Lambda


class Visible:
    """What files say of each other's names: those are not touched."""

    def __init__(self, sources: Iterable[str]) -> None:
        self.keywords: set[str] = set()
        self.names: set[str] = set()
        self.attributes: Counter[str] = Counter()
        """in how many files each is"""
        self.bases: Counter[str] = Counter()
        self.strings: set[str] = set()
        for source in sources:
            tree = ast.parse(source)
            self.attributes.update({node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)})
            self.bases.update(_bases(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.keyword) and node.arg is not None:
                    self.keywords.add(node.arg)
                elif isinstance(node, ast.Attribute):
                    self.names.add(node.attr)
                elif isinstance(node, ast.alias):
                    self.names.update((node.name, node.asname or node.name))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    self.names.add(node.value)  # getattr
                    self.strings.add(node.value)


def shorten(source: str, visible: Visible) -> str:
    tree = ast.parse(source)
    places: dict[tuple[int, int], tuple[str, str]] = {}
    """line and byte, of names that become others"""
    for function in ast.walk(tree):
        if isinstance(function, _Function) and _is_own(function):
            _parameters(function, visible, places)
    _own_functions(tree, source, visible, places)
    _own_attributes(tree, source, visible, places)
    lines = [line.encode() for line in source.split("\n")]
    for (line, at), (old, new) in sorted(places.items(), reverse=True):
        text = lines[line - 1]
        if text[at : at + len(old)] != old.encode():
            raise ValueError(f"line {line}: {old!r} is not at byte {at}")
        lines[line - 1] = text[:at] + new.encode() + text[at + len(old) :]
    return b"\n".join(lines).decode()


def _parameters(function: _Function, visible: Visible, places: dict[tuple[int, int], tuple[str, str]]) -> None:
    body = function.body if isinstance(function.body, list) else [function.body]
    inside = [node for part in body for node in ast.walk(part)]
    taken = _in_strings(inside)
    for node in inside:
        if isinstance(node, _Function):
            taken |= {one.arg for one in _arguments(node)}
        elif isinstance(node, ast.Global | ast.Nonlocal):
            taken |= set(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            taken.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            taken |= {one.asname or one.name for one in node.names}
    # Parameters of a nested one have other names than those of the function around it.
    number = 0 if isinstance(function, ast.FunctionDef) else 20
    if any(isinstance(node, _Function) for node in inside):
        number += 40
    for one in _arguments(function):
        if one.arg in ("self", "cls") or one.arg in visible.keywords or one.arg in taken or one.arg in visible.names:
            continue
        new = f"_{number}"
        number += 1
        places[one.lineno, one.col_offset] = (one.arg, new)
        for node in inside:
            if isinstance(node, ast.Name) and node.id == one.arg:
                places[node.lineno, node.col_offset] = (one.arg, new)


def _is_own(function: _Function) -> bool:
    """Others may be called by programs of their own, with keywords."""
    return isinstance(function, ast.Lambda) or (function.name.startswith("_") and not function.name.startswith("__"))


def _arguments(function: _Function) -> list[ast.arg]:
    found = function.args
    more = [one for one in (found.vararg, found.kwarg) if one is not None]
    return [*found.posonlyargs, *found.args, *found.kwonlyargs, *more]


def _in_strings(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        name.id
        for node in nodes
        if isinstance(node, ast.JoinedStr)
        for name in ast.walk(node)
        if isinstance(name, ast.Name)
    }


def _own_functions(
    tree: ast.Module, source: str, visible: Visible, places: dict[tuple[int, int], tuple[str, str]]
) -> None:
    everything = list(ast.walk(tree))
    taken = visible.names | _in_strings(everything)
    bound = [node.arg for node in everything if isinstance(node, ast.arg)]
    bound += [node.id for node in everything if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    number = 0
    lines = source.split("\n")
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("_"):
            continue
        if function.name.startswith("__") or function.name in taken or function.name in bound:
            continue
        new = f"_f{number}"
        number += 1
        at = len(lines[function.lineno - 1].partition("def ")[0].encode()) + 4
        places[function.lineno, at] = (function.name, new)
        for node in everything:
            if isinstance(node, ast.Name) and node.id == function.name:
                places[node.lineno, node.col_offset] = (function.name, new)


def _own_attributes(
    tree: ast.Module, source: str, visible: Visible, places: dict[tuple[int, int], tuple[str, str]]
) -> None:
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names = {one.name for one in classes}
    here = _bases(tree)
    if here - names - {"object", "Exception"} or any(visible.bases[one] > (one in here) for one in names):
        return
    inside = [node for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for node in ast.walk(one)]
    taken = visible.strings | {node.attr for node in inside if isinstance(node, ast.Attribute)}
    found: dict[str, list[tuple[int, int]]] = {}
    lines = source.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            if not isinstance(node.value, ast.Name) or node.value.id != "self":
                taken.add(node.attr)
            at = (node.end_col_offset or 0) - len(node.attr)
            found.setdefault(node.attr, []).append((node.end_lineno or 0, at))
    for one in classes:
        for part in one.body:
            if isinstance(part, ast.FunctionDef):
                at = len(lines[part.lineno - 1].partition("def ")[0].encode()) + 4
                found.setdefault(part.name, []).append((part.lineno, at))
            else:
                taken |= {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
    number = 0
    for name, where in found.items():
        if not name.startswith("_") or name.startswith("__") or name in taken or visible.attributes[name] > 1:
            continue
        for place in where:
            places[place] = (name, f"_a{number}")
        number += 1


def _bases(tree: ast.Module) -> set[str]:
    """Of classes: names that they inherit from."""
    found = [base for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases]
    return {one.attr if isinstance(one, ast.Attribute) else ast.unparse(one) for one in found}
