"""One agent, the same source on MicroPython (ESP32) and on CPython (a Pi): what a device publishes, and how it lives.

Nothing is loaded here: a device imports what it uses. What decides takes `now`; what waits is in the modules that
tests/test_house.py lists as shells.
"""
