"""The file of a deployment from the disk."""

from pathlib import Path

from vicinal.scope.file_cpython import read
from vicinal.scope.graph import ScopeGraph

from ..complain import BadInput

__all__ = ["load"]


def load(path: str) -> ScopeGraph:
    """Whatever is wrong in it is said, and nothing is done with it."""
    file = Path(path)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    graph, problems = read(file, data)
    if graph is None:
        raise BadInput("\n       ".join(problems))
    return graph
