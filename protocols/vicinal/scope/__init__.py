"""Scopes: who may hear what (seeds 003 and 004; DESIGN 6).

graph        the scopes of each dimension and how they nest
visibility   from which scope an event is visible in which other: the relation itself, as the papers define it
"""
