"""Event mapping declared as data, for gateways and for the edges of scopes. See mapping.py.

from vicinal.mapping.mapping import INWARD, OUTWARD, Mapping, Unmappable
from vicinal.mapping.toml_cpython import loads          a file of [[map]] tables

Nothing is loaded here: a device imports what it uses.
"""
