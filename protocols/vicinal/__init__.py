"""The language of Vicinal: one event, one filter language, one wire. Sans-I/O, on CPython and MicroPython.

    from vicinal.event import Event             the event model
    from vicinal import wire, stream            events as bytes, streams of them
    from vicinal.filter import Filter           conditions: match, cover, translate
    from vicinal.filter.index import Index      many filters at once
    from vicinal.distlist import DistList       to which event services
    from vicinal import control                 requests between gateways, and their answers
    from vicinal.proximity import Proximity     circles and rectangles on the Earth
    from vicinal import json_form               events as JSON

Nothing is loaded here: a device imports what it uses.
"""

__version__ = "0.1.0"
