"""What can be wrong with what somebody gives the benchmark.

VicinalError
  LinearRoadError       the run cannot be done; names the file, and what to do
    BadInput            the input is none: no rows, or not one of them good
    BadHistory          the toll history cannot be read
"""

from vicinal.errors import VicinalError

__all__ = ["BadHistory", "BadInput", "LinearRoadError"]


class LinearRoadError(VicinalError):
    pass


class BadInput(LinearRoadError):
    pass


class BadHistory(LinearRoadError):
    pass
