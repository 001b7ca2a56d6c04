"""COSMIC: real-time event channels on CAN (seed 001, 2.3.3; spec/cosmic.md).

Time is integer microseconds here: a bit at 1 Mbit/s.
"""
