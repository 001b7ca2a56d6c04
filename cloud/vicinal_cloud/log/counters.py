"""What happened, counted: accepted = stored + duplicates + refused, exactly, after every call."""

from typing import Any

__all__ = ["Counters"]


class Counters:
    def __init__(self) -> None:
        self.accepted = 0
        self.stored = 0
        self.duplicates = 0
        self.refused: dict[str, int] = {}
        """by reason"""

        self.repaired = 0
        """torn ends that were cut on opening"""
        self.repaired_bytes = 0
        self.damaged = 0
        """offsets that cannot be read, as far as anybody has tried"""
        self.damaged_bytes = 0
        self.damaged_heads = 0
        """segments whose head is damaged; their records are read all the same"""
        self.gone: dict[str, int] = {}
        """offsets removed by retention, by reason: age, size"""
        self.forgotten_producers = 0
        self.checkpoints_failed = 0
        """the next opening takes longer"""
        self.removals_failed = 0
        """segments that retention will try to remove again"""
        self.unpublished = 0
        """commits that readers in other processes were not told of at once"""

    def refuse(self, reason: str, count: int = 1) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + count

    def as_dict(self) -> dict[str, Any]:
        return {name: dict(value) if isinstance(value, dict) else value for name, value in vars(self).items()}
