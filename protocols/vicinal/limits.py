"""Every limit of the protocols, with its reason. Checked before anything is allocated.

Byte counts are of the UTF-8 form. A device may pass smaller limits where a function takes one; nobody may
pass larger ones, so that what one node accepts every node accepts.
"""

from ._compat import const

# An event must pass a gateway's store, a broker's queue and a Spark row; a picture belongs elsewhere.
MAX_EVENT_BYTES = const(65536)
# Decoding stops here whatever the size: 64 KiB of one-byte items would cost a Pi 50 ms.
MAX_ITEMS = const(4096)
# RFC 8949 leaves depth open; recursion on an ESP32 does not.
MAX_DEPTH = const(16)
# Each nested event takes two levels of MAX_DEPTH, an attribute's value a third.
MAX_NESTING = const(6)

MAX_SUBJECT_BYTES = const(255)
MAX_NAME_BYTES = const(255)
MAX_PRODUCER_BYTES = const(64)
MAX_PARAMS = const(256)
MAX_ATTRS = const(64)

# 64-bit signed: what Java's long, Spark's BIGINT and a CAN signal can hold.
INT_MIN = -(1 << 63)
INT_MAX = (1 << 63) - 1
# Seed 001, 5.2.3.
MAX_PRIORITY = const(32767)

# Filters: their cost is bounded by their length (DESIGN 3).
MAX_FILTER_CHARS = const(4096)
MAX_FILTER_DEPTH = const(32)
MAX_FILTER_NODES = const(256)
# Beyond it a disjunctive normal form is widened, and says so.
MAX_DNF_TERMS = const(64)
# States of the product automaton that decides covering of string constraints; beyond it "not proven".
MAX_STRING_STATES = const(4096)
# And steps of its parts, for all that one call of covers, overlaps or simplify asks.
MAX_STRING_STEPS = const(300000)

MAX_DISTLIST_CHARS = const(4096)
# 1e-7 degrees; radius and sides in metres: half the Earth's circumference.
MAX_LAT = const(900000000)
MAX_LON = 1800000000
MAX_METRES = const(20037508)
