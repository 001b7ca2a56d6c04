"""The CoAP client on both interpreters, against noise, and beside aiocoap's own codec."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import run_suite
from aiocoap import Message as TheirMessage
from aiocoap.error import UnparsableMessage
from broken import broken_copy
from hypothesis import given
from hypothesis import strategies as st
from protocols.coap import suite

from vicinal.coap.client import Client, Request
from vicinal.coap.message import GET, MAX_DATAGRAM, PUT, Message, decode, encode
from vicinal.errors import RemoteProtocolError

SUITE = Path(suite.__file__)
ROOT = Path(__file__).parents[3]
SENTENCES = {
    "test_a_critical_option_fails": ["COAP-2"],
    "test_a_body_that_changes_begins_anew": ["COAP-12"],
    "test_a_large_notification_is_fetched": ["COAP-12", "COAP-15"],
    "test_answers_in_blocks": ["COAP-11"],
    "test_answers_of_others_do_not_count": ["COAP-1"],
    "test_an_observation_ends": ["COAP-14"],
    "test_blocks_into_a_sink_have_no_limit": ["COAP-11"],
    "test_bodies_in_blocks": ["COAP-3", "COAP-10"],
    "test_echo_is_repeated_once": ["COAP-9"],
    "test_events": ["COAP-16", "COAP-17"],
    "test_ids_wait_when_they_run_out": ["COAP-7"],
    "test_notifications_in_order": ["COAP-13"],
    "test_observations_are_asked_for_anew": ["COAP-13", "COAP-14"],
    "test_one_is_under_way_and_the_others_wait_in_order": ["COAP-3"],
    "test_patience_ends": ["COAP-5"],
    "test_a_separate_answer": ["COAP-5", "COAP-8"],
    "test_resets": ["COAP-8"],
    "test_retransmission_doubles_and_ends": ["COAP-4"],
    "test_tokens_and_ids_are_not_used_again": ["COAP-6"],
    "test_too_large_begins_again_with_smaller_blocks": ["COAP-10"],
    "test_what_is_too_long_fails_before_it_is_kept": ["COAP-11"],
}
TESTS = [
    pytest.param(name, marks=[pytest.mark.spec(*SENTENCES.get(name, []))])
    for name in sorted(vars(suite))
    if name.startswith("test_")
]


def test_every_sentence_names_a_test() -> None:
    assert set(SENTENCES) <= set(vars(suite))


@pytest.mark.parametrize("name", TESTS)
def test_on_cpython(name: str) -> None:
    getattr(suite, name)()


@pytest.mark.micropython
def test_on_micropython(micropython: Callable[..., str]) -> None:
    printed = micropython(run_suite.__file__, SUITE, heap="8M")
    assert printed.endswith(f"{len(TESTS)} passed, 0 failed\n"), printed


@pytest.mark.parametrize(
    ("file", "old", "new", "red"),
    [
        ("client", "self._wait *= 2", "pass", "test_retransmission_doubles"),
        ("client", "self._current is None and self._waiting", "self._waiting", "test_one_is_under_way"),
        ("client", "message.token != self._token or ", "", "test_answers_of_others"),
        ("client", "if mid % _PART == 0 and now < self._free[part]:", "if False:", "test_ids_wait"),
        ("client", "self._abandon(request)", "pass", "test_a_large_notification"),
        ("client", "+ [(message.mid, found is not None)]", "", "test_a_separate_answer"),
        ("_request", "and self._echo is None:", ":", "test_echo_is_repeated_once"),
        ("_request", "self.size = min(self.size, block1 & 7)", "pass", "test_bodies_in_blocks"),
        ("_request", "etag != self._etag or size", "size", "test_a_body_that_changes"),
        ("_request", "if self.sink is None and total > self.max_body:", "if False:", "test_what_is_too_long"),
    ],
)
def test_the_suite_can_fail(tmp_path: Path, file: str, old: str, new: str, red: str) -> None:
    """One thing broken in a copy, and the test that must notice."""
    broken_copy(ROOT / "protocols/vicinal", tmp_path, f"coap/{file}.py", old, new)
    name = next(name for name in vars(suite) if name.startswith(red))
    program = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(SUITE.parent)!r}]; import suite; suite.{name}()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=20)
    assert "Traceback" in done.stderr, done.stdout


@pytest.mark.spec("COAP-1")
@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda rest: b"\x44\x45\x12\x34abcd" + rest))
def test_arbitrary_bytes_raise_only_what_is_declared_and_as_aiocoap_reads_them(data: bytes) -> None:
    try:
        ours = decode(data)
    except RemoteProtocolError:
        return
    assert encode(ours) == data
    if ours.code:
        try:
            theirs = TheirMessage.decode(data)
        except (UnparsableMessage, UnicodeDecodeError):
            return  # they read values, too
        assert (int(theirs.code), theirs.mid, theirs.token, theirs.payload) == (
            ours.code,
            ours.mid,
            ours.token,
            ours.payload,
        )
        assert [int(option.number) for option in theirs.opt.option_list()] == [number for number, _ in ours.options]


options = st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=300)), max_size=6).map(sorted)


@given(st.integers(0, 3), st.sampled_from([1, 3, 0x45, 0x84]), st.integers(0, 65535), st.binary(max_size=8), options)
def test_round_trip(kind: int, code: int, mid: int, token: bytes, options: list[tuple[int, bytes]]) -> None:
    message = Message(kind, code, mid, token, options, b"payload")
    if sum(len(value) + 5 for _, value in options) > MAX_DATAGRAM - 30:
        return
    found = decode(encode(message))
    assert [getattr(found, name) for name in Message.__slots__] == [
        getattr(message, name) for name in Message.__slots__
    ]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("bytes"), st.binary(max_size=40)),
        st.tuples(
            st.just("answer"),
            st.integers(0, 3),
            st.sampled_from([0, 0x41, 0x44, 0x45, 0x5F, 0x81, 0x84, 0x88, 0x8D, 0xA3]),
            st.booleans(),
            st.lists(
                st.tuples(st.sampled_from([4, 6, 12, 14, 23, 27, 28, 252, 2049]), st.binary(max_size=4)), max_size=4
            ).map(sorted),
            st.binary(max_size=70),
        ),
        st.tuples(st.just("wait"), st.integers(0, 70_000)),
        st.tuples(st.just("ask"), st.integers(0, 200)),
        st.tuples(st.just("observe"), st.integers(0, 60_000)),
    ),
    max_size=40,
)


@given(steps)
def test_whatever_a_server_says_nothing_is_raised_and_each_request_has_one_answer(
    steps: list[tuple[object, ...]],
) -> None:
    client, now, mids, tokens = Client(suite.SEED, block=64, max_body=500), 0, [0], [b""]
    asked: list[list[object]] = []

    def drain() -> None:
        while (data := client.data_to_send()) is not None:
            mids.append(decode(data).mid)
            tokens.append(decode(data).token)

    for what, *rest in steps:
        if what == "bytes":
            client.receive_data(rest[0], now)  # type: ignore[arg-type]
        elif what == "answer":
            kind, code, latest, options, payload = rest
            token = tokens[-1] if latest else tokens[len(tokens) // 2]
            message = Message(kind, code, mids[-1], token, options, payload)  # type: ignore[arg-type]
            if code == 0:
                message = Message(kind, 0, mids[-1])  # type: ignore[arg-type]
            client.receive_data(encode(message), now)
        elif what == "wait":
            now += rest[0]  # type: ignore[operator]
            client.handle_timeout(now)
        elif client.waiting < 8 and client.observing < 8:
            answers: list[object] = []
            if what == "ask":
                asked.append(answers)
                body = bytes(rest[0])  # type: ignore[call-overload]
                client.request(Request(PUT if body else GET, ["x"], lambda a, t, to=answers: to.append(a), body), now)
            else:
                client.observe(Request(GET, ["o"], lambda a, t: None), now, rest[0])  # type: ignore[arg-type]
        drain()
        assert all(len(answers) <= 1 for answers in asked)
    for _ in range(200):
        due = client.next_timeout()
        if due is None or not client.waiting:
            break
        now = max(now, due)
        client.handle_timeout(now)
        drain()
    assert client.waiting == 0 or client.observing
    assert all(len(answers) == 1 for answers in asked)
