"""Every limit of the broker, with its reason."""

__all__ = [
    "BACKOFF_FIRST",
    "BACKOFF_MOST",
    "DRAIN_SECONDS",
    "LINKS_A_TICK",
    "MAX_BROKERS",
    "MAX_BUFFER",
    "MAX_CLIENTS",
    "MAX_DURABLE",
    "MAX_DURABLE_PER_CLIENT",
    "MAX_FED",
    "MAX_OWED",
    "MAX_PER_CLIENT",
    "MAX_STORED_AT_ONCE",
    "MAX_STORING",
    "READ_AGAIN_FIRST",
    "READ_AGAIN_MOST",
    "READ_BYTES",
    "STUCK_MS",
    "TICKS_FOR_ALL",
    "TICK_SECONDS",
    "WATCH_SECONDS",
]

# What waits for one connection. Beyond it, or when nothing has moved for STUCK_MS, a slow consumer is cut: the durable
# log, not the socket's buffer, is a consumer's queue.
MAX_BUFFER = 8 << 20
STUCK_MS = 10_000
# One turn of one connection: some 500 events, some 20 ms. Others wait no longer, however much it sends.
READ_BYTES = 64 << 10
# How often timeouts and stuck connections are looked for.
TICK_SECONDS = 0.25
# All connections are looked at in so many ticks, and few at once.
TICKS_FOR_ALL = 8
LINKS_A_TICK = 100
# How often the file of a deployment is looked at.
WATCH_SECONDS = 1.0

# The process may have 20,000 files open.
MAX_CLIENTS = 16_384
# Advertisements and subscriptions together.
MAX_PER_CLIENT = 1024
# Durable subscriptions, those of clients that are away too. Each is a log: some open files, a thread, and when it is
# made 20 ms of syncs that everybody waits for.
MAX_DURABLE_PER_CLIENT = 16
MAX_DURABLE = 2048
# What waits for the client of a durable subscription: well below MAX_BUFFER, or its own backlog would get it cut.
MAX_FED = 1 << 20
# Records of other brokers that a neighbour may bring.
MAX_BROKERS = 20_000
# Publishes that wait for the disk; beyond it no more is read from publishers. As much for durable subscriptions; beyond
# it other brokers are not acknowledged, and nothing is published again here.
MAX_STORING = 16 << 20
# Of one client, behind a broker that takes no more: two reads of the smallest there are. A client is not read from
# meanwhile, but may come again and again.
MAX_OWED = 8192
# Of 64 KiB at most, in batches of the log's 4 MiB.
MAX_STORED_AT_ONCE = 64

# Seconds until what a full disk has refused is asked for again, doubled from the first to the most.
READ_AGAIN_FIRST = 1.0
READ_AGAIN_MOST = 60.0

# Seconds between two attempts to connect, doubled from the first to the most, times a random half to one.
BACKOFF_FIRST = 0.2
BACKOFF_MOST = 30.0
# So long a broker that was told to stop waits for others to take what it has for them.
DRAIN_SECONDS = 5.0
