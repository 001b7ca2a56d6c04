"""A filter explained: its tree, its shortest text, and what it becomes in other languages."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from vicinal.filter import Filter
from vicinal.filter._ast import And, Node, Not, Or
from vicinal.filter._text import text_of

if TYPE_CHECKING:
    from vicinal.filter.translate import Translation

__all__ = ["Explanation"]

# As their own people call them, in the order they are shown.
_LANGUAGES = {
    "jms": "JMS selector",
    "etcl": "CORBA ETCL",
    "siena": "SIENA filter",
    "spark": "Spark SQL",
    "mqtt": "MQTT topic filter",
    "can": "CAN acceptance",
}


class Explanation:
    def __init__(self, text: str, parsed: Filter, can: dict[str, list[int]] | None = None) -> None:
        """`can` maps subjects to CAN identifiers; without it there is no translation to CAN."""
        self.text = text
        self.node = parsed.node
        self.canonical = _text(parsed.node)
        self.simplified = str(parsed.simplify())
        self.translations: dict[str, Translation] = {
            "jms": parsed.to_jms(),
            "etcl": parsed.to_etcl(),
            "siena": parsed.to_siena(),
            "spark": parsed.to_spark(),
            "mqtt": parsed.to_mqtt(),
        }
        if can:
            self.translations["can"] = parsed.to_can(can)

    def as_json(self) -> dict[str, Any]:
        return {
            "filter": self.text,
            "tree": _data(self.node),
            "canonical": self.canonical,
            "simplified": self.simplified,
            "translations": {
                name: {"text": found.text, "exact": found.exact, "reasons": list(found.reasons)}
                for name, found in self.translations.items()
            },
        }

    def show(self, console: Console) -> None:
        def line(text: Text | Tree | str = "") -> None:
            # Texts are to be copied: never wrapped, never read as markup.
            console.print(text, soft_wrap=True, markup=False, highlight=False, emoji=False)

        line(_tree(self.node))
        line()
        line(f"canonical   {self.canonical}")
        line(f"simplified  {self.simplified}")
        for name, found in self.translations.items():
            line()
            verdict = ("exact", "bold green") if found.exact else ("wider", "bold yellow")
            line(Text.assemble(f"{_LANGUAGES[name]}: ", verdict))
            for row in found.text.splitlines():
                line(f"  {row}")
            for reason in found.reasons:
                line(Text(f"  - {reason}", style="dim"))


def _text(node: Node) -> str:
    return text_of(node)


def _children(node: Node) -> tuple[Node, ...]:
    if isinstance(node, And):  # and Or, which is its subclass
        return node.terms
    return (node.term,) if isinstance(node, Not) else ()


def _label(node: Node) -> str:
    return "OR" if isinstance(node, Or) else "AND" if isinstance(node, And) else "NOT"


def _tree(node: Node) -> Tree:
    children = _children(node)
    tree = Tree(Text(_label(node), style="bold") if children else Text(_text(node)))
    for child in children:
        tree.children.append(_tree(child))
    return tree


def _data(node: Node) -> Any:
    """A leaf is its text, a branch {"AND": [...]}."""
    children = _children(node)
    return {_label(node): [_data(child) for child in children]} if children else _text(node)
