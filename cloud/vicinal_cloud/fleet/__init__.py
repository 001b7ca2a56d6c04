"""The fleet: names and configurations for gateways (seed 001, 8.2.3 and 8.2.4; spec/provisioning.md).

names       who has which name; a name is given once
versions    which texts a gateway was served, which failed there
directory   the folder that an administrator writes and gateways are served from
service     the same over the overlay: hello comes in, a configuration goes out
inside      the way from a broker to a client of its own, without a socket that others could use

A broker serves one with `[fleet] directory = "fleet"`; alone it is `vicinal fleet serve DIRECTORY`.
"""
