"""Vicinal's broker beside mosquitto and nats-server: the same events, the same machine, the same run.

    python -m vicinal_tools.bench.peers 1to1 --systems vicinal,mosquitto --rounds 1

What is measured is brokers, not client libraries: clients are raw sockets with packets encoded beforehand, and equally
lean for all three. Publishers are one process, subscribers another, the broker a third, fresh for every run.

    events.py       the event, and many of it with one size
    systems.py      how a broker is started, stopped and measured
    clients.py      how each protocol publishes and subscribes
    workers.py      the process that publishes, and the one that receives
    durable.py      the process that publishes and waits until it is on disk
    scenarios.py    who sends how much to whom; one run
    figures.py      the figures of `make bench`, with their goals
"""

from .figures import rows

__all__ = ["rows"]
