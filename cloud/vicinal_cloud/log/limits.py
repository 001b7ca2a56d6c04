"""Every limit of the log, with its reason."""

from vicinal import limits

__all__ = [
    "DEDUP_WINDOW",
    "MAX_BATCH_BYTES",
    "MAX_BATCH_RECORDS",
    "MAX_PENDING_BYTES",
    "MAX_PRODUCERS",
    "MAX_READ_BYTES",
    "MAX_RECORD_BYTES",
    "READ_CHUNK",
    "SEGMENT_BYTES",
]

MAX_RECORD_BYTES = 41 + limits.MAX_PRODUCER_BYTES + limits.MAX_EVENT_BYTES

# Large enough that rolling (four syncs) is rare, small enough that retention does not delete in leaps and a scan after
# a lost checkpoint is half a second.
SEGMENT_BYTES = 64 << 20
# One write. At 200 MB/s it delays an acknowledgement by 20 ms; more would be felt in the p99.
MAX_BATCH_BYTES = 4 << 20
# `lag` is 32 bits; the real reason is the time to encode a batch, about 2 us a record.
MAX_BATCH_RECORDS = 16384
# What waits for a commit. Past it `append` waits too, which is how a slow disk slows its clients.
MAX_PENDING_BYTES = 32 << 20

# Original offsets remembered for each producer: more than it can have in flight when its link breaks. Kept twice over
# at most: 2 * 64 * 16 bytes, so that 10,000 producers take 20 MB.
DEDUP_WINDOW = 64
# Names alone would be 64 MB. When it is reached, producers whose last record retention has removed are forgotten.
MAX_PRODUCERS = 1_000_000

READ_CHUNK = 256 << 10
# One call of `read` looks at so much at most, whatever the filter skips, so that a call has a bounded time.
MAX_READ_BYTES = 4 << 20
