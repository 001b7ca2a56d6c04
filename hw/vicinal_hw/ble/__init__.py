"""Bluetooth Low Energy advertisements for STEAM: BlueZ on a Pi, `bluetooth` on a board, and the virtual radio."""
