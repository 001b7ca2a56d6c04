"""Frames and events through the mapping, under whatever interpreter runs this (no pytest: MicroPython has none)."""

import json

from vicinal.cosmic.frame import Frame
from vicinal.cosmic.mapping import Mapping
from vicinal.errors import VicinalError
from vicinal.event import Event

TABLES = """{"message": [
 {"id": 12345, "subject": "Speed", "fields": [
  {"name": "license_no", "bytes": "0..6", "type": "string"},
  {"name": "rate", "bytes": 7, "type": "double", "unit": "km/h"}]},
 {"id": 513, "subject": "Engine", "endian": "big", "holes": true, "length": 8, "fields": [
  {"name": "rpm", "bytes": "0..1", "type": "double", "scale": 0.25},
  {"name": "gear", "start": 20, "length": 4, "type": "int", "names": {"0": "P", "1": "D"}},
  {"name": "brake", "start": 24, "type": "bool"},
  {"name": "page", "bytes": 4, "type": "uint"},
  {"name": "oil", "bytes": 5, "type": "int", "offset": -40, "when": {"page": 1}},
  {"name": "water", "bytes": "5..7", "type": "uint", "endian": "little", "when": {"page": [2, 3]}}]},
 {"id": 5, "extended": true, "subject": "Raw", "endian": "little", "fields": [
  {"name": "f", "bytes": "0..3", "type": "float"}, {"name": "b", "bytes": "4..7", "type": "bytes"}]},
 {"id": 6, "subject": "Big", "endian": "little", "fields": [{"name": "n", "bytes": "0..7", "type": "uint"}]}
]}"""


def refused(call, *args):
    try:
        call(*args)
    except VicinalError as error:
        return str(error)
    return "accepted"


def main():
    mapping = Mapping.from_tables(json.loads(TABLES), "m.json")
    frames = [
        Frame(12345, b"00D12349"),
        Frame(12345, b"D1\x00\x00\x00\x00\x00\xff"),
        Frame(513, b"\x0f\xa0\x1e\x01\x01\x5a\x00\x00", False),
        Frame(513, b"\xff\xff\x00\x00\x02\x01\x02\x03", False),
        Frame(513, b"\x00\x00\x00\x00\x09\x00\x00\x00", False),
        Frame(5, b"\x00\x00\x80\x3f\x00\x01\x02\xff"),
    ]
    for frame in frames:
        event = mapping.decode(frame)
        print(event.subject, [(name, type(value).__name__, value) for name, value in event.params.items()])
        print(mapping.encode(event) == frame)
    print(
        mapping.decode(Frame(5, b"", False)),
        mapping.decode(Frame(12345, remote=True)),
        sorted(mapping.units("Speed").items()),
    )
    print(refused(mapping.decode, Frame(12345, b"00D1234")))
    print(refused(mapping.decode, Frame(12345, b"\xc3\x28\x00\x00\x00\x00\x00\x01")))
    print(refused(mapping.decode, Frame(6, b"\xff" * 8, False)))
    for params in (
        [("license_no", "00D12345"), ("rate", 57.2)],
        [("license_no", "00D1234"), ("rate", 256)],
        [("license_no", "00D1234"), ("rate", -1.0)],
        [("license_no", "00D1234"), ("rate", float("nan"))],
        [("license_no", "00D1234"), ("rate", True)],
        [("license_no", 7), ("rate", 1)],
        [("license_no", "x\x00"), ("rate", 1)],
        [("rate", 1)],
        [("license_no", "x"), ("rate", 1), ("colour", "red")],
    ):
        print(refused(mapping.encode, Event("Speed", params)))
    print(mapping.encode(Event("Speed", [("license_no", "x"), ("rate", 57.2)])).data)
    gear = [("rpm", 8.0), ("gear", "D"), ("brake", True), ("page", 1), ("oil", 50)]
    print(mapping.encode(Event("Engine", gear)).data)
    gear.append(("water", 1))
    print(refused(mapping.encode, Event("Engine", gear)))
    gear[1] = ("gear", "X")
    print(refused(mapping.encode, Event("Engine", gear)))
    print(refused(mapping.encode, Event("Nobody")))
    staged = Mapping.from_tables(json.loads(json.dumps(mapping.tables())), "staged", by_name=True)
    print(staged.decode(Frame(513, b"\x00\x00\x02\x00\x00\x00\x00\x00", False)).params["gear"])
    print(sorted(mapping.identifiers().items()))


if __name__ == "__main__":
    main()
