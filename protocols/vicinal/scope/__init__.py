"""Scopes: who may hear what (seeds 003 and 004; DESIGN 6; spec/scope.md).

graph        the scopes of each dimension and how they nest, and the components in them
visibility   from which scope an event is visible in which other: the relation itself, as the papers define it
interface    what crosses the boundary of a scope, in each of its superscopes
mapping      subscriptions along the ways of events; plugin_cpython: mappings that are programs
policy       which members get an event: delivery and traverse
publishing   when an event leaves a scope upwards
session      scopes that reactions stay in; session_cpython keeps the context of a reaction
membership   who may join, publish and subscribe
spread       how an event moves up and down the scopes
manager      all of it together, for declared components
file_cpython the file of a deployment, read with all that is wrong in it

judge, journey and notes are parts of the manager.
"""
