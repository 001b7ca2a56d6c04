"""The configuration that `vicinal agent new` writes: what was asked for, and the rest as comments."""

import json

__all__ = ["text_of"]

HEAD = """# An agent of Vicinal: what this device publishes, and to whom. See edge/README.md, "Agents".

[agent]
name = {name}               # who publishes: no two devices have the same
gateway = {gateway}         # the CoAP service of a gateway
health_s = 60               # how often it says how it is, as AgentHealth
# only = true               # publish nothing but subjects with a [[rule]]
# watchdog_s = 30           # on a board: started again if it hangs for so long

[journal]                   # what waits while the gateway is away: {kib} KiB, the oldest give way
file = "journal.bin"
sectors = 64
sector_bytes = 4096
linger_ms = 2000            # what the gateway takes within this time is never written to flash
"""
WIFI = """
[wifi]                      # the password is asked for when the device is flashed, and is not kept here
ssid = {ssid}
"""
POSITION = """
# [position]                # where it stands; BLE groups want to know
# lat = 53.3438
# lon = -6.2546
"""
CAN = """
[[can]]
interface = {interface}     # socketcan on a Pi, vicinal for the virtual bus; on a board: controller = "mcp2515"
channel = {channel}
bitrate = 500000
mapping = {mapping}         # which frame is which event; or dbc = "car.dbc" with messages = ["NAME"]
# [[can.event]]             # and COSMIC channels, by their etag
# etag = 300
"""
NO_CAN = """
# [[can]]
# interface = "socketcan"
# channel = "can0"
# mapping = "speed.toml"
"""
BLE = """
[[ble]]                     # events of a proximity group that this device hears
subject = {subject}
adapter = "hci0"            # or virtual = "town"
# filter = "rate > 30"
"""
SENSOR = """
[[sensor]]                  # on a board: type = "gpio", "adc" or "i2c", with pin or address
type = "file"
path = {path}
subject = {subject}
name = "value"
every_ms = 1000
# scale = 0.001
"""
RULE = """
[[rule]]                    # filters at the source; all keys but subject may be left out
subject = {subject}
# filter = "rate > 5"       # range: only what meets the condition
# field = "rate"
# delta = 1.0               # deadband: only if `field` is this far from what was sent last
# change = true             # only if it is another value
# every_ms = 200            # no more often
# refresh_ms = 60000        # and again after so long, changed or not
"""
PUBLISH = """
# [[publish]]               # and on a bus or in the air, whoever wants it; the keys of a [[rule]] may follow
# subject = {subject}
# on = "can"                # as a frame of its mapping; etag = 300: on a COSMIC channel; "ble": to who is near
"""


def text_of(
    name: str, gateway: str, ssid: str = "", can: str = "", ble: str = "", sensor: str = "", subject: str = ""
) -> str:
    """Empty: not wanted. `can` is interface:channel."""

    def filled(text: str, **values: str) -> str:
        return text.format(**{key: json.dumps(value, ensure_ascii=False) for key, value in values.items()})

    parts = [filled(HEAD.replace("{kib}", "256"), name=name, gateway=gateway)]
    if ssid:
        parts.append(filled(WIFI, ssid=ssid))
    parts.append(POSITION)
    if can:
        interface, _, channel = can.rpartition(":")
        parts.append(filled(CAN, interface=interface or "socketcan", channel=channel, mapping="speed.toml"))
    else:
        parts.append(NO_CAN)
    if ble:
        parts.append(filled(BLE, subject=ble))
    if sensor:
        parts.append(filled(SENSOR, path=sensor, subject=subject or "Reading"))
    parts.append(filled(RULE, subject=subject or ble or "Speed"))
    parts.append(filled(PUBLISH, subject=subject or ble or "Speed"))
    return "".join(parts)
