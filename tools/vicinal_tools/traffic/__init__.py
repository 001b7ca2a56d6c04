"""Vehicles on roads, simulated: towns, car following, lights and speeders, in stepped time and with a seed."""
