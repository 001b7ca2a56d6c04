"""Traffic control, the use case of seed 001, 5.8: limits of areas, offences with their evidence, fines."""

from .cases import Case, NotAllowed, Step
from .control import Changes, Quarantined, Settings, TrafficControl
from .limits import Hours, Limit, Limits, Rule
from .network import Area, Monitor, Network, NetworkError, Road, load
from .reports import Report, Rules
from .stretches import Evidence
from .tariff import Band, Tariff

__all__ = [
    "Area",
    "Band",
    "Case",
    "Changes",
    "Evidence",
    "Hours",
    "Limit",
    "Limits",
    "Monitor",
    "Network",
    "NetworkError",
    "NotAllowed",
    "Quarantined",
    "Report",
    "Road",
    "Rule",
    "Rules",
    "Settings",
    "Step",
    "Tariff",
    "TrafficControl",
    "load",
]
