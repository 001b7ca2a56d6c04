"""Shorter names for a device: what nobody outside can see, and nothing else. That the agent still works with them its
suites show, which run with a staged tree on MicroPython (tests/edge/agent)."""

import ast

from vicinal_tools.shorten import Visible, shorten
from vicinal_tools.stage import agent_files, lean

SOURCE = '''
class Node:
    def __init__(self, name, first):
        self._name = name
        self._queue = [first]
        self._said = 0
        self.public = self._gap(first, name)

    def _gap(self, announcement, name):
        """self._gap and announcement in a text are left alone: ä"""
        text = "ä" + _length(announcement, most=3)
        return [(lambda item: item + text)(each) for each in self._queue] + [f"{name}"]

    def say(self, handler):
        def told(what):
            return handler(what, self._said)
        return told(self._queue)

def _length(announcement, most):
    return announcement * most

def _kept(what):
    return what
'''
OTHER = "from node import _kept\nprint(getattr(Node(), '_said'))\n"


def test_what_is_a_file_s_own() -> None:
    short = shorten(SOURCE, Visible([SOURCE, OTHER]))
    assert short.count("\n") == SOURCE.count("\n")
    names = {node.attr for node in ast.walk(ast.parse(short)) if isinstance(node, ast.Attribute)}
    assert names == {"_a0", "_a1", "_a2", "_said", "public"}  # what is asked for by its name keeps it
    made = {node.name: node for node in ast.walk(ast.parse(short)) if isinstance(node, ast.FunctionDef)}
    assert {"_f0", "_kept", "__init__", "say", "told"} <= set(made)
    assert [one.arg for one in made["__init__"].args.args] == ["self", "name", "first"]  # others may call it
    assert [one.arg for one in made["_f0"].args.args] == ["_0", "most"]  # a keyword
    assert "self._gap and announcement in a text" in short
    for text in (SOURCE, short):
        space: dict[str, object] = {}
        exec(text, space)
        node = space["Node"]("x", "ab")  # type: ignore[operator]
        assert node.public == ["abäababab", "x"]
        assert node.say(lambda what, said: (what, said)) == (["ab"], 0)


def test_classes_of_several_files_are_left_alone() -> None:
    base = "class Base:\n    def __init__(self):\n        self._x = 1\n"
    heir = "from base import Base\nclass Heir(Base):\n    def f(self):\n        self._y = 2\n        return self._x\n"
    visible = Visible([base, heir])
    assert (shorten(base, visible), shorten(heir, visible)) == (base, heir)
    # And attributes that another file hangs onto something.
    stranger = "def hang(node):\n    node._z = 1\n"
    assert shorten(stranger, Visible([stranger])) == stranger


def test_the_agent_has_fewer_names() -> None:
    sources = [lean(path.read_text(encoding="utf-8")) for path, _ in agent_files()]
    visible = Visible(sources)

    def names(texts: list[str]) -> set[str]:
        nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
        return {node.attr for node in nodes if isinstance(node, ast.Attribute)} | {
            node.name for node in nodes if isinstance(node, ast.FunctionDef)
        }

    short = [shorten(source, visible) for source in sources]
    assert len(names(short)) < len(names(sources)) - 150
