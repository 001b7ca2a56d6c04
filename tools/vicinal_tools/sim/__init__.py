"""Deterministic simulations: the product's own state machines, a simulated network and clock, one seed."""
