"""Every golden vector through the language, under whatever interpreter runs this.

    python suite.py FOLDER          FOLDER is protocols/vectors; `vicinal` is on the path

One line for each failure, a last line `vectors: N passed, M failed`, exit code 1 if any failed. Written for
MicroPython: no pytest, one file in memory at a time. What a vector's fields mean is said at the function that runs it.
"""

import binascii
import gc
import json
import struct
import sys
from hashlib import sha256

from vicinal import _cbor, control, json_form, p256, wire
from vicinal._cbor_read import loads as cbor_loads
from vicinal.coap import message as coap
from vicinal.cosmic import binding_frames
from vicinal.cosmic.binding_table import BindingTable
from vicinal.cosmic.clock import BusClock
from vicinal.cosmic.fragments import Reassembly, fragments
from vicinal.distlist import DistList
from vicinal.errors import FilterSyntaxError, LocalProtocolError, RemoteProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.filter._covering import covers as node_covers
from vicinal.filter._covering import overlaps as node_overlaps
from vicinal.filter._simplify import simplify
from vicinal.filter._text import text_of
from vicinal.mapping.mapping import Mapping, Unmappable
from vicinal.proximity import Proximity, distance
from vicinal.steam._bodies import decode as decode_body
from vicinal.steam._bodies import encode as encode_body
from vicinal.steam._bodies import seed_of
from vicinal.steam.beacon import Beacon
from vicinal.steam.frames import Cut, Piece, check_of, payloads, structure
from vicinal.steam.groups import group_id, subject_hash
from vicinal.steam.motion import reckon
from vicinal.steam.reading import read as read_frame
from vicinal.steam.reassembly import Reassembly as Pieces
from vicinal.stream import FrameReader, frame


class Wrong(Exception):
    pass


def same(got, want, what="got"):
    if type(got) is not type(want) or got != want:
        raise Wrong(f"{what} {got!r}, want {want!r}")


def refused(error, kind, call, *args):
    """The error's message must hold `error`: a refusal for another reason proves nothing."""
    got = raised = None
    try:
        got = call(*args)
    except kind as found:
        raised = found
    if raised is None:
        raise Wrong(f"accepted as {got!r}, want {error!r}")
    if error not in str(raised):
        raise Wrong(f"refused with {str(raised)!r}, want {error!r}")
    return raised


def unhex(text):
    return binascii.unhexlify(text)


def event_of(found):
    """An event from its list form. Values as in JSON (spec/json.md), and {"$f64": hex} for a float by its bits: the
    interpreters do not all read decimals alike."""
    params = [(name, value_of(value)) for name, value in found.get("params", [])]
    attrs = {name: value_of(value) for name, value in found.get("attrs", {}).items()}
    return Event(found["subject"], params, attrs, found.get("producer"), found.get("seq"))


def value_of(value):
    if not isinstance(value, dict):
        return value
    ((key, inner),) = value.items()
    if key == "$bytes":
        return binascii.a2b_base64(inner)
    if key == "$f64":
        return struct.unpack(">d", unhex(inner))[0]
    return float(inner) if key == "$float" else event_of(inner)


def events(vector):
    """`event` and `hex` are each other's encoding; no shorter input is an event."""
    data = unhex(vector["hex"])
    event = event_of(vector["event"])
    same(wire.encode(event), data, "encoded")
    decoded = wire.decode(data)
    same(decoded, event, "decoded")
    same(list(decoded.params), [name for name, _ in vector["event"].get("params", [])], "order")
    same(wire.encode(decoded.replace()), data, "encoded again")
    # All of them for short events, and for long ones every 37th: a device's heap is swept often enough.
    for size in range(0, len(data), 1 if len(data) < 200 else 37):
        refused("", RemoteProtocolError, wire.decode, data[:size])
    refused("bytes after the value", RemoteProtocolError, wire.decode, data + b"\0")


def bad_events(vector):
    """`hex` is refused with `error` in the message; `why` is for people."""
    refused(vector["error"], RemoteProtocolError, wire.decode, unhex(vector["hex"]))


def appendix_a(vector):
    """`profile` is "inside", or what the refusal says."""
    data = unhex(vector["hex"])
    if vector["profile"] != "inside":
        refused(vector["profile"], RemoteProtocolError, cbor_loads, data)
        return
    value = cbor_loads(data)
    if not isinstance(value, float) and "decoded" in vector and not isinstance(value, dict):
        same(value, vector["decoded"], "decoded")
    same(_cbor.dumps(value), data, "encoded")
    for size in range(len(data)):
        refused("truncated", RemoteProtocolError, cbor_loads, data[:size])


def appendix_f(line):
    """Every line is ill-formed."""
    refused("", RemoteProtocolError, cbor_loads, unhex(line.replace(" ", "")))


def streams(vector):
    """`hex` holds the `events`, in slices of any size."""
    data = unhex(vector["hex"])
    for size in (1, 2, 7, len(data) or 1):
        same([wire.encode(event) for event in read(data, size)], [unhex(text) for text in vector["events"]])
    same(b"".join([frame(wire.decode(unhex(text))) for text in vector["events"]]), data, "framed")


def bad_streams(vector):
    """After `events` good ones, refused at `offset`."""
    data = unhex(vector["hex"])
    for size in (1, 2, 7, len(data)):
        found = []
        error = refused(vector["error"], RemoteProtocolError, read, data, size, found)
        same(error.offset, vector["offset"], "offset")
        same(len(found), vector["events"], "events")


def read(data, size, found=None):
    found = [] if found is None else found
    reader = FrameReader()
    for start in range(0, len(data), size):
        reader.receive_data(data[start : start + size])
        event = reader.next_event()
        while event is not None:
            found.append(event)
            event = reader.next_event()
    reader.receive_eof()
    return found


def filters(vector):
    """`expr` is true, false or unknown (null) of `event`."""
    condition = Filter(vector["expr"])
    event = event_of(vector["event"])
    same(condition.test(event), vector["result"])
    same(condition.matches(event), vector["result"] is True, "matches")


def bad_filters(vector):
    """`expr` is refused at `column` with `message`."""
    error = refused(vector["message"], FilterSyntaxError, Filter, vector["expr"])
    same(error.column, vector["column"], "column")


def covers(vector):
    # A device's Filter only matches; what else CPython's can do is in modules that run on both.
    a, b = Filter(vector["a"]).node, Filter(vector["b"]).node
    same(node_covers(a, b), vector["covers"], "covers")
    same(node_overlaps(a, b), vector["overlaps"], "overlaps")
    same(node_overlaps(b, a), vector["overlaps"], "overlaps, the other way round,")


def simplified(vector):
    """`expr` becomes `simple`, and written back it reads as the same filter."""
    simple = simplify(Filter(vector["expr"]).node)
    same(text_of(simple), vector["simple"], "simplified")
    same(Filter(text_of(simple)).node == simple, True, "read back")


def translations(vector):
    """`expr` for `target` (with `options`) is `text`, and `exact` or wider."""
    name = "to_" + vector["target"]
    module = __import__("vicinal.filter.translate." + vector["target"], None, None, (name,))
    found = getattr(module, name)(Filter(vector["expr"]).node, **vector.get("options", {}))
    same(found.text, vector["text"])
    same(found.exact, vector["exact"], "exact")


def mapped_events(vector):
    """By `rules` the event `here` is `there`, which comes back as `again`, where that is said."""
    mapping = Mapping.from_tables(vector["rules"])
    there = event_of(vector["there"])
    same(mapping.outward(event_of(vector["here"])), there, "outward")
    if "again" in vector:
        same(mapping.inward(there), event_of(vector["again"]), "inward")


def unmappable(vector):
    """The event `outward` or `inward` is refused with `error`."""
    mapping = Mapping.from_tables(vector["rules"])
    for way, call in (("outward", mapping.outward), ("inward", mapping.inward)):
        if way in vector:
            refused(vector["error"], Unmappable, call, event_of(vector[way]))


def mapped_filters(vector):
    """`expr` in `direction` is `text`, and `exact` or wider."""
    found = Mapping.from_tables(vector["rules"]).map_filter(Filter(vector["expr"]), vector["direction"])
    same(found.text, vector["text"])
    same(found.exact, vector["exact"], "exact")


def distlists(vector):
    """Of `services` the `list` selects `selected`."""
    same(DistList(vector["list"]).select(vector["services"]), vector["selected"])


def bad_distlists(vector):
    refused(vector["error"], LocalProtocolError, DistList, vector["list"])


def area_strings(vector):
    """`text` is read as `fields`, which are the wire's, and written as `canonical`."""
    area = Proximity.parse(vector["text"])
    same(list(area.fields()), vector["fields"], "fields")
    same(str(area), vector["canonical"], "written")
    same(Proximity.parse(str(area)) == area, True, "read back")
    same(Proximity.from_fields(vector["fields"]) == area, True, "from fields")


def bad_areas(vector):
    refused(vector["error"], LocalProtocolError, Proximity.parse, vector["text"])


def areas_at(vector):
    """`area`, while its producer is at `lat`, `lon`, lies `at`."""
    same(str(Proximity.parse(vector["area"]).at(vector["lat"], vector["lon"])), vector["at"])


def areas_contain(vector):
    same(Proximity.parse(vector["area"]).contains(vector["lat"], vector["lon"]), vector["inside"], "inside")


def areas_cover(vector):
    a, b = Proximity.parse(vector["a"]), Proximity.parse(vector["b"])
    same(a.covers(b), vector["covers"], "covers")
    same(a.overlaps(b), vector["overlaps"], "overlaps")
    same(b.overlaps(a), vector["overlaps"], "overlaps, the other way round,")


def distances(vector):
    """`from` and `to` are `mm` apart (GeographicLib's geodesic), give or take `tolerance_mm`."""
    metres = distance(*(vector["from"] + vector["to"]))
    if abs(metres * 1000 - vector["mm"]) > vector["tolerance_mm"] + 0.001:
        raise Wrong(f"{metres} m, want {vector['mm']} mm within {vector['tolerance_mm']}")


def message_of(found):
    kind = getattr(control, found["kind"])
    if found["kind"] == "Answer":
        producer, seq = found["request"]
        more = [found.get(*one) for one in (("gateway", ""), ("hop", 0), ("passed", False), ("detail", ""))]
        return kind(found["to"], found["source"], (producer, seq), found.get("reason", ""), *more)
    if found["kind"] == "Record":
        numbers = found["incarnation"], found["version"]
        return kind(found["source"], *numbers, tuple(found["transit"]), tuple(found["leaves"]))
    if found["kind"] == "Echo":
        return kind(found["to"], found["source"], found["trace"])
    return kind(found["to"], found["source"], event_of(found["event"]) if "event" in found else found["filter"])


def messages(vector):
    """`message` is sent as `event`, which is `hex`, and is read back from it."""
    message, event = message_of(vector["message"]), event_of(vector["event"])
    same(message.to_event(), event, "event")
    same(wire.encode(event), unhex(vector["hex"]), "encoded")
    same(control.from_event(wire.decode(unhex(vector["hex"]))) == message, True, "read back")
    same(type(control.from_event(event)).__name__, vector["message"]["kind"], "kind")


def accepted_messages(vector):
    """`event` is not as we would send it, and is read as `message`."""
    same(control.from_event(event_of(vector["event"])) == message_of(vector["message"]), True, "read")


def bad_messages(vector):
    refused(vector["error"], RemoteProtocolError, control.from_event, event_of(vector["event"]))


def json_forms(vector):
    """`json` is the event `hex`; where `written`, the event is also written so."""
    event = json_form.loads(vector["json"])
    same(wire.encode(event), unhex(vector["hex"]), "encoded")
    same(json_form.loads(json_form.dumps(event)), event, "read back")
    if vector["written"]:
        same(json.loads(json_form.dumps(event)) == json.loads(vector["json"]), True, "written")


def bad_json_forms(vector):
    refused(vector["error"], LocalProtocolError, json_form.loads, vector["json"])


def cut_events(vector):
    """An event `hex` (with its `number`, or null) is cut into `payloads`, and put together from them."""
    data = unhex(vector["hex"])
    payloads = [unhex(text) for text in vector["payloads"]]
    same(list(fragments(data, vector["number"])), payloads, "cut")
    found = Reassembly()
    same([found.receive(1, 100, payload, 0) for payload in payloads], [None] * (len(payloads) - 1) + [data])


def bad_fragments(vector):
    """`payloads` give no event, and are `dropped` for these reasons."""
    found = Reassembly()
    same([found.receive(1, 100, unhex(text), 0) for text in vector["payloads"]], [None] * len(vector["payloads"]))
    same(found.dropped, vector["dropped"], "dropped")


def subject_uids(vector):
    same(binding_frames.subject_uid(vector["subject"]), unhex(vector["uid"]), "uid")


def stage_requests(vector):
    """A node with `uid` asks at `stage` with an empty frame `id`."""
    request = binding_frames.stage_request(unhex(vector["uid"]), vector["stage"])
    same((request.id, request.data), (vector["id"], b""), "request")


def supplies(vector):
    """The broker tells `asker` the `etag` of `uid` in two frames `id` with `data`."""
    asker, uid, etag = vector["asker"], unhex(vector["uid"]), vector["etag"]
    kind = binding_frames.SUPPLY_ETAG
    sent = binding_frames.halves(binding_frames.PRIORITY, binding_frames.BROKER, kind, asker, uid, etag)
    same([(frame.id, frame.data) for frame in sent], [(vector["id"], unhex(text)) for text in vector["data"]], "sent")
    halves = binding_frames.Halves()
    same([halves.receive(127, unhex(text)) for text in vector["data"]], [None, (asker, uid, etag)], "received")


def tables(vector):
    """`entries` of kind, UID and number are stored as `hex`, and restored from it."""
    table, again = BindingTable(), BindingTable()
    for kind, uid, number in vector["entries"]:
        table.put(kind, unhex(uid), number)
    same(table.to_bytes(), unhex(vector["hex"]), "stored")
    same(again.restore(unhex(vector["hex"])), len(unhex(vector["hex"])), "restored")
    same(again.to_bytes(), unhex(vector["hex"]), "stored again")


def clocks(vector):
    """After `frames` (local time and payload) the clock is `in_sync` or not; the local time `at` is `bus` time."""
    clock = BusClock()
    for now, text in vector["frames"]:
        clock.receive(unhex(text), now)
    same(clock.in_sync(vector["frames"][-1][0]), vector["in_sync"], "in sync")
    same(clock.local_to_bus(vector["at"]), vector["bus"], "bus time")
    same(clock.bus_to_local(vector["bus"]), vector["at"], "local time")
    same(clock.drift, vector["drift"], "drift")


def subject_hashes(vector):
    same(subject_hash(vector["subject"]), unhex(vector["hash"]), "hash")


def group_ids(vector):
    """The `group` of a `subject` and an `area`; with a `sender` where it moves."""
    sender = None if vector["sender"] is None else unhex(vector["sender"])
    same(group_id(subject_hash(vector["subject"]), Proximity.parse(vector["area"]), sender), vector["group"], "group")


def beacon_frames(vector):
    """The fields are the frame `hex`, which goes out in `structure`."""
    subject, sender, area = subject_hash(vector["subject"]), unhex(vector["sender"]), Proximity.parse(vector["area"])
    moves, velocity = vector["relative"], tuple(vector["velocity"])
    written = Beacon(subject, sender, vector["number"], vector["every"], area, moves, velocity).encode()
    same(written, unhex(vector["hex"]), "written")
    same(structure(written), unhex(vector["structure"]), "structure")
    found = read_frame(written)
    same((found.subject, found.sender, found.number), (subject, sender, vector["number"]), "read")
    same((found.every, found.area == area, found.relative), (vector["every"], True, moves), "read")
    same(found.velocity, velocity, "velocity")


def reckoned_places(vector):
    """From a place, at a `velocity`, it is `then` elsewhere `ms` later."""
    found = reckon(vector["lat"], vector["lon"], tuple(vector["velocity"]), vector["ms"])
    same(found, tuple(vector["then"]), "place")


def event_pieces(vector):
    """An `event`, with its `names` or in full, is cut into `pieces`; all but any one give it back."""
    event, names = event_of(vector["event"]), vector["names"]
    seed = seed_of(event.subject, names)
    cut = Cut(encode_body(event, names), seed, vector["room"])
    subject, sender, number = subject_hash(event.subject), unhex(vector["sender"]), vector["number"]
    pieces = [
        Piece(names is not None, subject, sender, number, i, cut.count, cut.chunk(i)).encode()
        for i in range(cut.pieces)
    ]
    same(pieces, [unhex(text) for text in vector["pieces"]], "pieces")
    for missing in range(len(pieces)):
        found = None
        reassembly = Pieces(print)
        reassembly.max_bytes = 4096
        for i in range(len(pieces)):
            if found is None and (i != missing or cut.count == 1):
                found = reassembly.receive(read_frame(pieces[i]), 0, 1000)
        same(found[0], check_of(seed, found[1]), "check")
        same(decode_body(found[1], event.subject, names), event, "decoded")


def bad_frames(vector):
    refused(vector["error"], RemoteProtocolError, read_frame, unhex(vector["hex"]))


def strangers(vector):
    """An advertisement with so many `frames` of ours."""
    same(len(payloads(unhex(vector["hex"]))), vector["frames"], "frames")


def coap_messages(vector):
    """`hex` is the message of these fields, both ways."""
    message = coap.decode(unhex(vector["hex"]))
    fields = [message.type, message.code, message.mid, message.token, message.options, message.payload]
    options = [(number, unhex(value)) for number, value in vector["options"]]
    texts = unhex(vector["token"]), unhex(vector["payload"])
    same(fields, [vector["type"], vector["code"], vector["mid"], texts[0], options, texts[1]], "decoded")
    same(coap.encode(coap.Message(*fields)), unhex(vector["hex"]), "encoded")


def signatures(vector):
    """Whether `signature` is one of `message` by `key`: ECDSA on P-256 with SHA-256, the first of RFC 6979, A.2.5."""
    digest = sha256(vector["message"].encode()).digest()
    same(p256.verify(p256.key_of(vector["key"]), digest, unhex(vector["signature"])), vector["good"], "verified")


def bad_coap_messages(vector):
    refused(vector["error"], RemoteProtocolError, coap.decode, unhex(vector["hex"]))


FILES = (
    ("events.json", {"": events}),
    ("bad_events.json", {"": bad_events}),
    ("rfc8949_appendix_a.json", {"": appendix_a}),
    ("rfc8949_appendix_f.hex", {"": appendix_f}),
    ("streams.json", {"streams": streams, "bad": bad_streams}),
    ("filters.json", {"": filters}),
    ("bad_filters.json", {"": bad_filters}),
    ("covers.json", {"": covers}),
    ("simplified.json", {"": simplified}),
    ("translations.json", {"": translations}),
    ("mappings.json", {"events": mapped_events, "refused": unmappable, "filters": mapped_filters}),
    ("distlists.json", {"lists": distlists, "bad": bad_distlists}),
    (
        "proximity.json",
        {
            "strings": area_strings,
            "bad": bad_areas,
            "at": areas_at,
            "contains": areas_contain,
            "covers": areas_cover,
            "distances": distances,
        },
    ),
    ("controls.json", {"messages": messages, "accepted": accepted_messages, "bad": bad_messages}),
    ("p256.json", {"cases": signatures}),
    ("coap.json", {"messages": coap_messages, "bad": bad_coap_messages}),
    ("json_forms.json", {"forms": json_forms, "bad": bad_json_forms}),
    (
        "cosmic_binding.json",
        {
            "fragments": cut_events,
            "bad": bad_fragments,
            "uids": subject_uids,
            "stages": stage_requests,
            "supplies": supplies,
            "tables": tables,
            "clocks": clocks,
        },
    ),
    (
        "steam.json",
        {
            "hashes": subject_hashes,
            "groups": group_ids,
            "beacons": beacon_frames,
            "reckoned": reckoned_places,
            "events": event_pieces,
            "bad": bad_frames,
            "strangers": strangers,
        },
    ),
)


def load(path):
    with open(path, "rb") as file:  # noqa: PTH123  (MicroPython has no pathlib)
        data = file.read()
    if path.endswith(".hex"):
        return {"": [line for line in data.decode().split("\n") if line]}
    found = json.loads(data.decode())
    return found if isinstance(found, dict) else {"": found}


def run(folder):
    passed = failed = 0
    for name, parts in FILES:
        found = load(folder + "/" + name)
        if sorted(found) != sorted(parts):
            print(f"{name}: has {sorted(found)}, want {sorted(parts)}")
            failed += 1
        for part in sorted(parts):
            for number, vector in enumerate(found.get(part, [])):
                try:
                    parts[part](vector)
                    passed += 1
                except Exception as error:
                    failed += 1
                    # A vector may be 8 KB of hex; its start says which it is.
                    print(f"{name} {part} {number}: {type(error).__name__}: {str(error)[:300]} | {str(vector)[:200]}")
                if number % 50 == 0:
                    gc.collect()
        del found
        gc.collect()
    print(f"vectors: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: suite.py FOLDER")
        sys.exit(2)
    sys.exit(run(sys.argv[1]))
