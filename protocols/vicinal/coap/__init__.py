"""CoAP for small devices (RFC 7252; spec/coap.md): a client of one server, without sockets and without a clock.

    from vicinal.coap.client import Client           requests, observations, blocks; a shell moves the datagrams
    from vicinal.coap.message import decode, encode   one message as bytes
    from vicinal.coap.events import publish, observe  events on the server of a gateway

Time is integer milliseconds here. Nothing is loaded here: a device imports what it uses.
"""
