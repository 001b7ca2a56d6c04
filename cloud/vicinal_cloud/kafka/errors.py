"""What can be wrong with a topic, below vicinal.errors.

LogError
├── KafkaFailed     it did not do what was asked; whether it will later is not known
├── Fenced          another mirror of the same log has begun: this one ends
├── NotTheLog       what is mirrored under a name is another log than the one that has the name now
└── LogGone         retention was faster than the mirror (log, first, last)
"""

from ..log.errors import LogError

__all__ = ["Fenced", "KafkaFailed", "LogGone", "NotTheLog"]


class KafkaFailed(LogError):
    pass


class Fenced(LogError):
    pass


class NotTheLog(LogError):
    pass


class LogGone(LogError):
    def __init__(self, log: str, first: int, last: int) -> None:
        super().__init__(
            f"{log}: {last - first + 1} events, offsets {first} to {last}, were removed by retention before they were "
            "mirrored. --skip-lost goes on, with a message that says so; keep the log longer ([log] max_age_hours, "
            "max_bytes)"
        )
        self.log = log
        self.first = first
        self.last = last
