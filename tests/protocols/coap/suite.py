"""The CoAP client against a model of a server, on either interpreter (run_suite.py)."""

from vicinal import wire
from vicinal.coap import events
from vicinal.coap.client import MAX_WAITING, Client, Request
from vicinal.coap.message import ACK, CON, GET, NON, PUT, RST, Message, decode, encode, uint
from vicinal.errors import LocalProtocolError
from vicinal.event import Event

SEED = b"abcd\x12\x34\x56\x78"
CONTENT, CHANGED, CONTINUE = 0x45, 0x44, 0x5F


class Answers(list):
    def __call__(self, answer, now):
        self.append((answer, now))


def sent(client):
    """All datagrams that go now, taken apart."""
    found = []
    while True:
        data = client.data_to_send()
        if data is None:
            return found
        found.append(decode(data))


def one(client):
    found = sent(client)
    assert len(found) == 1, len(found)
    return found[0]


def texts(message, number):
    return [str(value, "utf-8") for each, value in message.options if each == number]


def reply(client, to, code, payload=b"", options=(), now=0, kind=ACK, mid=None):
    token = to.token
    number = to.mid if mid is None else mid
    client.receive_data(encode(Message(kind, code, number, token, list(options), payload)), now)


def raises(call, text):
    try:
        call()
    except LocalProtocolError as error:
        said = str(error)
    else:
        said = "nothing was raised"
    assert text in said, said


def get(client, now=0, **options):
    answers = Answers()
    request = Request(GET, ["x"], answers, **options)
    client.request(request, now)
    return answers


def test_a_request_and_its_answer():
    client, answers = Client(SEED), Answers()
    client.request(Request(PUT, ["ps", "Speed"], answers, b"57", 0), 0)
    message = one(client)
    assert (message.type, message.code, message.payload) == (CON, PUT, b"57")
    assert texts(message, 11) == ["ps", "Speed"]
    assert message.uint(12) == 0
    assert client.waiting == 1
    reply(client, message, CHANGED)
    assert client.waiting == 0
    assert client.next_timeout() is None
    ((answer, _),) = answers
    assert answer.ok
    assert answer.code == CHANGED
    assert sent(client) == []


def test_retransmission_doubles_and_ends():
    waits = []
    for chance in range(40):
        client = Client(SEED[:6] + bytes((chance * 37 & 255, 7)))
        answers = get(client)
        first = client.data_to_send()
        times, now = [], 0
        while client.next_timeout() is not None:
            due = client.next_timeout()
            client.handle_timeout(due - 1)
            assert client.data_to_send() is None
            times.append(due - now)
            now = due
            client.handle_timeout(now)
            again = client.data_to_send()
            assert again in (first, None)
        assert len(times) == 5, times
        assert [wait // times[0] for wait in times] == [1, 2, 4, 8, 16]
        assert 2000 <= times[0] <= 3000
        waits.append(times[0])
        ((answer, at),) = answers
        assert not answer.ok
        assert answer.code == 0
        assert "timeout" in answer.reason
        assert at == now
        assert client.counters["retransmitted"] == 4
    assert max(waits) - min(waits) > 500  # by chance, and all of it


def test_one_is_under_way_and_the_others_wait_in_order():
    client = Client(SEED)
    all_answers = [get(client) for _ in range(MAX_WAITING + 1)]
    raises(lambda: get(client), "requests that wait is 9, the limit is 8")
    for answers in all_answers:
        message = one(client)
        assert not answers
        reply(client, message, CONTENT, b"%d" % len(answers))
        assert len(answers) == 1
    assert sent(client) == []


def test_a_separate_answer():
    client = Client(SEED)
    answers = get(client)
    message = one(client)
    client.receive_data(encode(Message(ACK, 0, message.mid)), 100)
    assert client.next_timeout() == 30100
    reply(client, message, CONTENT, b"late", now=5000, kind=CON, mid=77)
    acknowledged = one(client)
    assert (acknowledged.type, acknowledged.code, acknowledged.mid) == (ACK, 0, 77)
    assert answers[0][0].payload == b"late"
    reply(client, message, CONTENT, b"late", now=5001, kind=CON, mid=77)
    assert one(client).type == ACK
    assert len(answers) == 1
    assert client.counters["repeated"] == 1
    # An acknowledgement that was lost: the answer stands for it.
    answers = get(client, now=6000)
    message = one(client)
    reply(client, message, CONTENT, b"now", now=6100, kind=NON, mid=78)
    assert answers[0][0].payload == b"now"
    assert sent(client) == []


def test_patience_ends():
    client = Client(SEED)
    answers = get(client)
    client.receive_data(encode(Message(ACK, 0, one(client).mid)), 100)
    client.handle_timeout(30099)
    assert not answers
    client.handle_timeout(30100)
    assert "timeout" in answers[0][0].reason
    answers = get(client, now=40000, confirmable=False)
    assert one(client).type == NON
    client.handle_timeout(69999)
    assert not answers
    client.handle_timeout(70000)
    assert "timeout" in answers[0][0].reason
    assert sent(client) == []


def test_no_answer_is_wanted():
    client, answers = Client(SEED), Answers()
    client.request(Request(PUT, ["x"], answers, b"1", confirmable=False, answered=False), 0)
    message = one(client)
    assert message.uint(258) == 26
    assert answers[0][0].ok
    assert client.waiting == 0
    raises(lambda: client.request(Request(PUT, ["x"], None, b"1", answered=False), 0), "without an answer")


def test_resets():
    client = Client(SEED)
    answers = get(client)
    client.receive_data(encode(Message(RST, 0, one(client).mid)), 1)
    assert "reset" in answers[0][0].reason
    client.receive_data(encode(Message(CON, 0, 5)), 2)  # a ping
    assert (one(client).type, client.counters["ping"]) == (RST, 1)
    client.receive_data(encode(Message(CON, GET, 6, b"t")), 3)
    assert one(client).type == RST
    client.receive_data(encode(Message(NON, GET, 7, b"t")), 3)
    assert sent(client) == []
    client.receive_data(encode(Message(CON, CONTENT, 8, b"who?")), 4)
    assert one(client).type == RST
    client.receive_data(encode(Message(CON, CONTENT, 8, b"who?")), 4)
    assert one(client).type == RST
    client.receive_data(encode(Message(ACK, CONTENT, 8, b"who?")), 4)
    assert sent(client) == []


def test_answers_of_others_do_not_count():
    client = Client(SEED)
    answers = get(client)
    message = one(client)
    client.receive_data(encode(Message(ACK, CONTENT, message.mid, b"wrong!")), 1)
    client.receive_data(encode(Message(ACK, CONTENT, message.mid ^ 1, message.token)), 1)
    client.receive_data(encode(Message(RST, 0, message.mid ^ 1)), 1)
    client.receive_data(b"\x60", 1)
    assert not answers
    assert client.counters["malformed"] == 1
    reply(client, message, CONTENT)
    assert len(answers) == 1


def test_tokens_and_ids_are_not_used_again():
    client = Client(SEED)
    tokens, mids, now = set(), set(), 0
    for _ in range(200):
        answers = get(client, now)
        message = one(client)
        assert message.token[:4] == SEED[:4]
        assert len(message.token) == 6
        tokens.add(message.token)
        mids.add(message.mid)
        reply(client, message, CONTENT, now=now)
        assert answers
    assert len(tokens) == len(mids) == 200


def test_ids_wait_when_they_run_out():
    client = Client(SEED[:4] + bytes((0x0F, 0x00)) + SEED[6:])
    used, now, waits = {}, 0, 0
    # As if a server answered at once for a minute: a message id in a part of 4,096 stands for all of them.
    for number in range(16 * 256 * 2):
        if number % 16 == 15:
            client._mid = (client._mid + 240) & 0xFFFF
        client.request(Request(PUT, ["x"], None, b"1"), now)
        data = client.data_to_send()
        if data is None:
            waits += 1
            now = client.next_timeout()
            client.handle_timeout(now)
            data = client.data_to_send()
        mid = data[2] << 8 | data[3]
        assert now - used.get(mid, -247000) >= 247000, (mid, number)
        used[mid] = now
        client.receive_data(b"\x66\x44" + data[2:10], now)
        now += number & 1
    assert waits >= 1
    assert now >= 247000


def test_echo_is_repeated_once():
    client = Client(SEED)
    answers = get(client)
    reply(client, one(client), 0x81, b"repeat it", [(252, b"echo-echo")])
    message = one(client)
    assert message.first(252) == b"echo-echo"
    reply(client, message, 0x81, b"no", [(252, b"other")])
    assert answers[0][0].reason == "4.01 no"
    assert sent(client) == []


def test_a_critical_option_fails():
    client = Client(SEED)
    answers = get(client)
    reply(client, one(client), CONTENT, b"x", [(12, b""), (2049, b"?")])
    assert "option 2049" in answers[0][0].reason
    answers = get(client)
    reply(client, one(client), CONTENT, b"x", [(12, b"123"), (2048, b"?")])  # elective, and too long
    assert answers[0][0].ok
    assert answers[0][0].form is None


def put_in_blocks(client, size, blocks, smaller=None, answer=CHANGED):
    """A server that collects Block1; `smaller` is what it asks for."""
    body, seen = b"", []
    while True:
        message = one(client)
        block = message.uint(27)
        number, more, exponent = block >> 4, block >> 3 & 1, block & 7
        seen.append((number, exponent))
        assert number << 4 + exponent == len(body), (number, exponent, len(body))
        body += message.payload
        if not more:
            reply(client, message, answer, b"", [(27, uint(block))])
            return body, seen
        assert len(message.payload) == 16 << exponent
        if number == 0:
            assert message.uint(60) == size
        reply(
            client,
            message,
            CONTINUE,
            b"",
            [(27, uint(block & ~7 | min(exponent, exponent if smaller is None else smaller)))],
        )


def test_bodies_in_blocks():
    for size in (65, 128, 129, 1000, 4096):
        for smaller in (None, 2, 0):
            client, answers = Client(SEED, block=64), Answers()
            body = bytes([n % 251 for n in range(size)])
            client.request(Request(PUT, ["x"], answers, body, 60), 0)
            others = get(client)
            got, seen = put_in_blocks(client, size, 0, smaller)
            assert got == body
            if smaller is not None and size > 128:
                assert seen[1][1] == smaller
            assert answers[0][0].ok
            assert not others
            one(client)  # and now the other


def test_a_body_that_fits_goes_whole():
    client = Client(SEED, block=64)
    client.request(Request(PUT, ["x"], None, bytes(64), 60), 0)
    message = one(client)
    assert message.uint(27) is None
    assert len(message.payload) == 64


def test_too_large_begins_again_with_smaller_blocks():
    client, answers = Client(SEED, block=256), Answers()
    client.request(Request(PUT, ["x"], answers, bytes(1000), 60), 0)
    reply(client, one(client), 0x8D, b"", [(27, uint(8 | 1))])
    got, seen = put_in_blocks(client, 1000, 0)
    assert got == bytes(1000)
    assert seen[0] == (0, 1)
    assert answers[0][0].ok


def test_wrong_blocks_fail():
    for code, options, said in (
        (CONTINUE, [(27, uint(1 << 4 | 8 | 2))], "block 1 is acknowledged, 0 was sent"),
        (CONTINUE, [], "2.31 for what was sent whole"),
        (0x88, [], "4.08"),
    ):
        client, answers = Client(SEED, block=64), Answers()
        client.request(Request(PUT, ["x"], answers, bytes(100), 60), 0)
        reply(client, one(client), code, b"", options)
        assert said in answers[0][0].reason, answers[0][0].reason


def serve_blocks(client, body, exponent, etag=b"e", first=None, limit=100):
    message = one(client) if first is None else first
    for _ in range(limit):
        asked = message.uint(23) or exponent
        exponent = min(asked & 7, exponent)
        at = (asked >> 4) << 4 + exponent
        piece = body[at : at + (16 << exponent)]
        more = at + len(piece) < len(body)
        block = (asked >> 4) << 4 | more << 3 | exponent
        options = [(4, etag), (12, uint(60)), (23, uint(block))] + ([(28, uint(len(body)))] if at == 0 else [])
        reply(client, message, CONTENT, piece, options)
        if not more:
            return
        message = one(client)
        assert message.uint(6) is None


def test_answers_in_blocks():
    for size in (64, 65, 1000, 4096):
        for exponent in (6, 2, 0):
            client = Client(SEED, block=1024)
            body = bytes([n % 251 for n in range(size)])
            answers = get(client)
            serve_blocks(client, body, exponent, limit=300)
            assert answers[0][0].payload == body
            assert answers[0][0].form == 60
            assert sent(client) == []


def test_blocks_into_a_sink_have_no_limit():
    client, answers, got = Client(SEED, block=64, max_body=100), Answers(), []
    request = Request(GET, ["x"], answers, sink=lambda at, data: got.append((at, data)))
    client.request(request, 0)
    body = bytes([n % 251 for n in range(5000)])
    serve_blocks(client, body, 2, limit=300)
    assert b"".join([data for _, data in got]) == body
    assert [at for at, _ in got] == list(range(0, 5000, 64))
    assert answers[0][0].ok
    assert answers[0][0].payload == b""


def test_what_is_too_long_fails_before_it_is_kept():
    client = Client(SEED, max_body=100)
    answers = get(client)
    reply(client, one(client), CONTENT, bytes(64), [(23, uint(8 | 2)), (28, uint(101))])
    assert "101 bytes or more, the limit is 100" in answers[0][0].reason
    answers = get(client)
    reply(client, one(client), CONTENT, bytes(101))
    assert "101 bytes, the limit is 100" in answers[0][0].reason
    answers = get(client)
    reply(client, one(client), CONTENT, bytes(64), [(23, uint(8 | 2))])
    reply(client, one(client), CONTENT, bytes(64), [(23, uint(1 << 4 | 8 | 2))])
    assert "limit is 100" in answers[0][0].reason
    assert sent(client) == []


def test_a_body_that_changes_begins_anew():
    client = Client(SEED, block=64)
    answers = get(client)
    for etag in (b"1", b"2", b"3"):
        message = one(client)
        assert message.uint(23) in (2, None)
        reply(client, message, CONTENT, bytes(64), [(4, etag), (23, uint(8 | 2))])
        reply(client, one(client), CONTENT, bytes(64), [(4, etag + b"x"), (23, uint(1 << 4 | 8 | 2))])
    assert "of another body" in answers[0][0].reason
    answers = get(client)
    reply(client, one(client), CONTENT, bytes(64), [(4, b"1"), (23, uint(8 | 2))])
    reply(client, one(client), CONTENT, bytes(64), [(4, b"2"), (23, uint(1 << 4 | 8 | 2))])
    serve_blocks(client, bytes(200), 2)
    assert answers[0][0].payload == bytes(200)


def observing(client, refresh=0, number=5, now=0):
    answers = Answers()
    request = Request(GET, ["x"], answers)
    client.observe(request, now, refresh)
    message = one(client)
    assert message.uint(6) == 0
    reply(client, message, CONTENT, b"first", [(6, uint(number))], now=now)
    assert client.observing == 1
    return request, message, answers


def payloads(answers):
    return [answer.payload for answer, _ in answers]


def test_notifications_in_order():
    client = Client(SEED)
    _, message, answers = observing(client)
    for mid, number, payload in ((1, 6, b"a"), (2, 8, b"b"), (3, 7, b"old"), (4, 8, b"same"), (5, 9, b"c")):
        reply(client, message, CONTENT, payload, [(6, uint(number))], kind=CON, mid=mid)
        assert one(client).type == ACK
    assert payloads(answers) == [b"first", b"a", b"b", b"c"]
    assert all(answer.observed for answer, _ in answers)
    assert client.counters["stale"] == 2
    reply(client, message, CONTENT, b"wrapped", [(6, uint(2))], kind=NON, mid=6, now=128000)
    assert payloads(answers)[-1] == b"wrapped"
    client = Client(SEED)
    _, message, answers = observing(client, number=0xFFFFFE)
    reply(client, message, CONTENT, b"over", [(6, uint(1))], kind=NON, mid=7, now=1)
    reply(client, message, CONTENT, b"old", [(6, uint(0xFFFFFF))], kind=NON, mid=8, now=2)
    assert payloads(answers) == [b"first", b"over"]


def test_observations_are_asked_for_anew():
    client = Client(SEED)
    _request, message, answers = observing(client, refresh=60000)
    assert client.next_timeout() == 60000
    reply(client, message, CONTENT, b"a", [(6, uint(6))], kind=CON, mid=1, now=30000)
    one(client)
    client.handle_timeout(60000)
    assert sent(client) == []
    client.handle_timeout(90000)
    again = one(client)
    assert again.token == message.token
    assert again.uint(6) == 0
    reply(client, again, CONTENT, b"b", [(6, uint(1))], now=90010)  # the server was started again
    assert payloads(answers) == [b"first", b"a", b"b"]
    assert client.observing == 1
    client.handle_timeout(150010)
    reply(client, one(client), 0x84, b"gone", now=150020)
    assert client.observing == 0
    assert not answers[-1][0].observed
    assert answers[-1][0].reason == "4.04 gone"


def test_an_observation_ends():
    client = Client(SEED)
    request, message, answers = observing(client)
    reply(client, message, 0xA3, b"", kind=CON, mid=1)
    assert client.observing == 0
    assert answers[-1][0].reason == "5.03"
    one(client)
    request, message, answers = observing(client)
    client.unobserve(request, 5)
    last = one(client)
    assert (last.uint(6), last.token) == (1, message.token)
    reply(client, message, CONTENT, b"late", [(6, uint(9))], kind=CON, mid=2)
    assert payloads(answers) == [b"first"]
    answers = Answers()
    client.observe(Request(GET, ["y"], answers), 6)
    reply(client, last, CONTENT, b"x")
    message = sent(client)[-1]
    reply(client, message, CONTENT, b"not observable")
    assert not answers[0][0].observed
    assert client.observing == 0


def test_a_large_notification_is_fetched():
    client = Client(SEED, block=64)
    _request, message, answers = observing(client)
    body = bytes([n % 251 for n in range(300)])
    reply(client, message, CONTENT, body[:64], [(4, b"e"), (6, uint(6)), (23, uint(8 | 2))], kind=CON, mid=1)
    found = sent(client)
    fetch = next(each for each in found if each.type == CON)
    assert fetch.token != message.token
    serve_blocks(client, body, 2, first=fetch)
    assert payloads(answers) == [b"first", body]
    assert answers[-1][0].observed
    # Another comes while the rest is fetched.
    reply(client, message, CONTENT, bytes(64), [(4, b"1"), (6, uint(7)), (23, uint(8 | 2))], kind=CON, mid=2)
    sent(client)
    reply(client, message, CONTENT, body[:64], [(4, b"2"), (6, uint(8)), (23, uint(8 | 2))], kind=CON, mid=3)
    fetch = next(each for each in sent(client) if each.type == CON)
    serve_blocks(client, body, 2, etag=b"2", first=fetch)
    assert payloads(answers) == [b"first", body, body]
    assert client.counters["abandoned"] == 1
    # It has changed: that event is gone, and the observation goes on.
    reply(client, message, CONTENT, bytes(64), [(4, b"3"), (6, uint(9)), (23, uint(8 | 2))], kind=CON, mid=4)
    fetch = next(each for each in sent(client) if each.type == CON)
    reply(client, fetch, CONTENT, bytes(64), [(4, b"4"), (23, uint(1 << 4 | 8 | 2))])
    assert "another body" in answers[-1][0].reason
    assert answers[-1][0].observed


def test_events():
    client, answers, heard, ended = Client(SEED), Answers(), [], Answers()
    event = Event("road/Speed", (("rate", 57),), (), "car-7", 12)
    events.publish(client, event, 0, answers)
    message = one(client)
    assert texts(message, 11) == ["ps", "road", "Speed"]
    assert (message.code, message.uint(12), message.payload) == (PUT, 60, wire.encode(event))
    reply(client, message, 0x41)
    assert answers[0][0].ok
    condition = "rate > 30 AND license_no = '" + "ä" * 200 + "'"
    events.observe(client, None, condition, lambda event, now: heard.append(event), 0, ended)
    message = one(client)
    queries = texts(message, 15)
    assert queries[-1] == "own=no"
    assert "".join([query[7:] for query in queries[:-1]]) == condition
    assert all(query[:7] == "filter=" and len(query.encode()) <= 255 for query in queries[:-1])
    assert (texts(message, 11), message.uint(17), message.uint(6)) == (["ps"], 60, 0)
    reply(client, message, CONTENT, b"", [(6, uint(1))])
    reply(client, message, CONTENT, wire.encode(event), [(6, uint(2)), (12, uint(60))], kind=CON, mid=1)
    reply(client, message, CONTENT, b"no event", [(6, uint(3)), (12, uint(60))], kind=CON, mid=2)
    assert heard == [event]
    assert client.counters["no event"] == 1
    assert not ended
    reply(client, message, 0x84, kind=CON, mid=3)
    assert len(ended) == 1


def test_limits_of_what_we_ask():
    raises(lambda: Client(b"short"), "bytes of the seed is 5, the limit is 8 or more")
    raises(lambda: Client(SEED, block=100), "bytes of a block is 100")
    client = Client(SEED, block=1024)
    raises(lambda: client.request(Request(GET, ["x" * 256]), 0), "in a request is 256, the limit is 255")
    raises(lambda: client.request(Request(PUT, ["x" * 250], None, bytes(1024)), 0), "the limit is 1280")
    assert sent(client) == []
    assert client.waiting == 0


class Chance:
    def __init__(self, seed):
        self.state = seed * 7919 + 13

    def below(self, n):
        self.state = (self.state * 1103515245 + 12345) & 0x3FFFFFFF
        return (self.state >> 8) % n


def lossy(seed, count, loss):
    """A network that loses, repeats and delays, and a server that answers each message id once and counts events."""
    chance, client = Chance(seed), Client(SEED[:6] + bytes((seed & 255, 9)), block=64)
    done, taken, bodies, known, to_server, to_client = [], [], {}, {}, [], []
    now = sent_of = 0

    def finished(answer, at):
        done.append(answer)

    def serve(data):
        message = decode(data)
        if message.mid not in known:
            block = message.uint(27)
            if block is None or not block & 8:
                whole = bodies.pop("body", b"") + message.payload if block is not None else message.payload
                taken.append(whole)
                code = CHANGED
            else:
                if block >> 4 == 0:
                    bodies["body"] = b""
                bodies["body"] += message.payload
                code = CONTINUE
            options = [] if block is None else [(27, uint(block))]
            if chance.below(4) == 0:  # separate
                known[message.mid] = [
                    Message(ACK, 0, message.mid),
                    Message(CON, code, message.mid ^ 0x5555, message.token, options),
                ]
            else:
                known[message.mid] = [Message(ACK, code, message.mid, message.token, options)]
        return known[message.mid] if message.code else []

    def send(queue, data):
        for _ in range(2 if chance.below(10) == 0 else 1):
            if chance.below(100) >= loss:
                queue.append((now + chance.below(1500), data))

    while sent_of < count or client.waiting:
        if sent_of < count and client.waiting < 4:
            body = b"%d:" % sent_of + bytes(chance.below(200))
            client.request(Request(PUT, ["x"], finished, body, 60), now)
            sent_of += 1
        while True:
            data = client.data_to_send()
            if data is None:
                break
            send(to_server, data)
        now += 50
        for queue in (to_server, to_client):
            for item in [each for each in queue if each[0] <= now]:
                queue.remove(item)
                if queue is to_client:
                    client.receive_data(item[1], now)
                elif decode(item[1]).code:
                    for answer in serve(item[1]):
                        send(to_client, encode(answer))
        due = client.next_timeout()
        if due is not None and due <= now:
            client.handle_timeout(now)
    return done, taken


def test_lost_repeated_and_late_messages():
    for seed in range(6):
        done, taken = lossy(seed, 25, 20)
        numbers = [int(body.split(b":")[0]) for body in taken]
        assert len(done) == 25
        assert numbers == sorted(numbers)
        answered = len([answer for answer in done if answer.ok])
        assert answered <= len(set(numbers)) == len(numbers)
        assert answered >= 20, answered
