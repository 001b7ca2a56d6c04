"""Units of measure, each by what it is in the unit of its quantity: value * n / d + offset.

The factors are exact where the unit is defined by one (an inch is 127/5000 m); of those here only `rad` is not.
A unit is written in ASCII, as in CAN databases.
"""

from ._exact import parse_ratio, reduced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._exact import Ratio

__all__ = ["between", "known"]

_TABLE = """
speed        m/s 1 | km/h 5/18 | mph 0.44704 | kn 463/900 | ft/s 0.3048 | cm/s 1/100
acceleration m/s2 1 | g0 9.80665
length       m 1 | km 1000 | cm 1/100 | mm 1/1000 | in 0.0254 | ft 0.3048 | yd 0.9144 | mi 1609.344 | nmi 1852
temperature  K 1 | degC 1 273.15 | degF 5/9 45967/180
pressure     Pa 1 | hPa 100 | kPa 1000 | MPa 1000000 | bar 100000 | mbar 100 | atm 101325 | psi 8896443230521/1290320000
mass         kg 1 | g 1/1000 | mg 1/1000000 | t 1000 | lb 0.45359237 | oz 0.028349523125
time         s 1 | ms 1/1000 | us 1/1000000 | ns 1/1000000000 | min 60 | h 3600 | d 86400
angle        deg 1 | 1e-7deg 1/10000000 | arcmin 1/60 | arcsec 1/3600 | rad 57.295779513082320877
volume       l 1 | ml 1/1000 | m3 1000 | gal_us 3.785411784 | gal_uk 4.54609
energy       J 1 | kJ 1000 | Wh 3600 | kWh 3600000
power        W 1 | kW 1000 | MW 1000000 | PS 735.49875
voltage      V 1 | mV 1/1000 | kV 1000
current      A 1 | mA 1/1000
frequency    Hz 1 | kHz 1000 | MHz 1000000 | 1/min 1/60 | rpm 1/60
torque       Nm 1 | lbf.ft 1.3558179483314004
share        1 1 | % 1/100 | permille 1/1000
"""

_units: "dict[str, tuple[str, Ratio, Ratio]]" = {}


def known() -> "dict[str, tuple[str, Ratio, Ratio]]":
    """name -> quantity, and factor and offset to the quantity's own unit. Read from the table when first asked for."""
    if not _units:
        for line in _TABLE.strip().split("\n"):
            quantity, rest = line.split(None, 1)
            for entry in rest.split("|"):
                fields = entry.split() + ["0"]
                factor, offset = parse_ratio(fields[1]), parse_ratio(fields[2])
                _units[fields[0]] = (quantity, factor or (1, 1), offset or (0, 1))
    return _units


def between(here: str, there: str) -> "tuple[int, int, int]":
    """(n, m, d): a value v in unit `here` is (v * n + m) / d in unit `there`. Both are known and of one quantity."""
    _, (n1, d1), (o1, p1) = known()[here]
    _, (n2, d2), (o2, p2) = known()[there]
    # v * n1/d1 + o1/p1 = w * n2/d2 + o2/p2
    factor = reduced(n1 * d2, d1 * n2)
    offset = reduced((o1 * p2 - o2 * p1) * d2, p1 * p2 * n2)
    return affine(factor, offset)


def affine(factor: "Ratio", offset: "Ratio") -> "tuple[int, int, int]":
    """(n, m, d) of v * factor + offset."""
    return factor[0] * offset[1], offset[0] * factor[1], factor[1] * offset[1]
