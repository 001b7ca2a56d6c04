"""NMEA: laws, beside the vectors that both interpreters run (test_devices.py)."""

from fractions import Fraction

from hw.location.drive import angle, checked, drive, sentences
from hypothesis import given
from hypothesis import strategies as st

from vicinal_hw.location.nmea import MAX_SENTENCE, Nmea

COUNTED_ONCE = [name for name in Nmea().counters if name not in ("started", "noise bytes")]


def assert_accounted(nmea: Nmea) -> None:
    open_now = nmea._size >= 0
    assert nmea.counters["started"] == sum(nmea.counters[name] for name in COUNTED_ONCE) + open_now


@st.composite
def positions(draw: st.DrawFn) -> tuple[str, Fraction, Fraction]:
    """As a sentence has them, with 4 to 7 decimals of minutes, and their exact values in 1e-7 degrees."""
    decimals = draw(st.integers(4, 7))
    scale = 10**decimals
    lat = draw(st.integers(-90 * 60 * scale, 90 * 60 * scale))
    lon = draw(st.integers(-180 * 60 * scale, 180 * 60 * scale))
    text = f"{angle(lat, 2, 'NS', decimals)},{angle(lon, 3, 'EW', decimals)}"
    return text, Fraction(lat * 10**7, 60 * scale), Fraction(lon * 10**7, 60 * scale)


@given(positions(), st.sampled_from(["GP", "GN", "GL", "GA", "BD", "II"]), st.sampled_from(["RMC", "GGA", "GNS"]))
def test_positions_are_within_1e_7_degrees(position: tuple[str, Fraction, Fraction], talker: str, kind: str) -> None:
    text, lat, lon = position
    rest = {"RMC": "", "GGA": "1,08,1.0,,,,,,", "GNS": "AN,08,1.0,,,,,"}[kind]
    body = f"RMC,120000,A,{text},0,0,010126,,,A" if kind == "RMC" else f"{kind},120000,{text},{rest}"
    nmea = Nmea()
    nmea.receive_data(checked(talker + body).encode(), 0)
    fix = nmea.fix(0)
    assert fix is not None
    # Half a unit is what rounding to the nearest leaves, and more than was asked for.
    assert abs(fix.lat - lat) <= Fraction(1, 2)
    assert abs(fix.lon - lon) <= Fraction(1, 2)


@given(positions())
def test_south_and_west_are_mirror_images(position: tuple[str, Fraction, Fraction]) -> None:
    def read(text: str) -> tuple[int, int]:
        nmea = Nmea()
        nmea.receive_data(checked(f"GPGGA,120000,{text},1,08,1.0,,,,,,").encode(), 0)
        fix = nmea.fix(0)
        assert fix is not None
        return fix.lat, fix.lon

    text = position[0]
    lat, lon = read(text)
    assert read(text.translate(str.maketrans("NSEW", "SNWE"))) == (-lat, -lon)


@given(st.integers(0, 1_000_000), st.integers(0, 3), st.integers(0, 36_000))
def test_speeds_and_headings(number: int, decimals: int, heading: int) -> None:
    knots = Fraction(number, 10**decimals) % 1900
    whole, part = divmod(knots * 10**decimals, 10**decimals)
    text = f"{int(whole)}.{int(part):0{decimals}d}" if decimals else str(int(whole))
    nmea = Nmea()
    course = f"{heading // 100:03d}.{heading % 100:02d}"
    nmea.receive_data(checked(f"GPRMC,120000,A,5320.0,N,00615.0,W,{text},{course},010126,,,A").encode(), 0)
    fix = nmea.fix(0)
    assert fix is not None
    assert fix.speed is not None
    assert abs(fix.speed - knots * 1852000 / 3600) <= Fraction(1, 2)
    assert fix.heading == heading % 36000


GOOD = [line.encode() + b"\r\n" for second in drive(5) for line in sentences(second).split("\r\n")[:-1]]
PIECES = st.lists(
    st.sampled_from(GOOD)
    | st.binary(max_size=40)
    | st.sampled_from([b"$", b"*", b"\r", b"\n", b"$" + b"," * 200])
    | st.tuples(st.sampled_from(GOOD), st.integers(0, 60), st.integers(0, 255)).map(
        lambda t: t[0][: t[1]] + bytes([t[2]]) + t[0][t[1] + 1 :]
    ),
    max_size=12,
)


@given(PIECES, st.data())
def test_any_bytes_in_any_pieces(pieces: list[bytes], data: st.DataObject) -> None:
    """Nothing is raised, everything is counted, and it does not matter how it is cut."""
    stream = b"".join(pieces)
    whole, cut = Nmea(), Nmea()
    whole.receive_data(stream, 7)
    assert_accounted(whole)
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        cut.receive_data(stream[:size], 7)
        stream = stream[size:]
        assert_accounted(cut)
    assert cut.counters == whole.counters
    assert cut.fix(7) == whole.fix(7)
    assert len(cut._line) == MAX_SENTENCE


@st.composite
def strange_sentences(draw: st.DrawFn) -> bytes:
    """The checksum is right and the fields are anything."""
    field = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="$*,"), max_size=12)
    plausible = st.sampled_from(
        ["", "A", "V", "N", "S", "E", "W", "1", "0", "5320.6", "00615.2", "120000.00", "230326", "9" * 20, ".", "1."]
    )
    kind = draw(st.sampled_from(["RMC", "GGA", "GNS", "VTG"]))
    return checked(",".join([f"GP{kind}", *draw(st.lists(field | plausible, max_size=14))])).encode()


@given(st.lists(strange_sentences(), max_size=5))
def test_any_fields(lines: list[bytes]) -> None:
    nmea = Nmea()
    for line in lines:
        nmea.receive_data(line, 0)
    nmea.fix(0)
    assert_accounted(nmea)


def test_a_drive() -> None:
    nmea = Nmea()
    for number, second in enumerate(drive(3000), 1):
        nmea.receive_data(sentences(second).encode(), second.time)
        fix = nmea.fix(second.time)
        assert fix is not None
        lat, lon = second.position
        assert abs(fix.lat - lat) <= Fraction(1, 2)
        assert abs(fix.lon - lon) <= Fraction(1, 2)
        assert (fix.time, fix.heading, fix.accuracy) == (second.time, second.heading, 4000)
        assert nmea.epoch == number
    assert nmea.counters["used"] == nmea.counters["started"] == 6000
