"""The journal on emulated flash, on either interpreter: python journal_suite.py, micropython journal_suite.py.

The model knows which events are on flash for sure (flush had returned), which are done, and which numbers were given.
"""

import sys

from vicinal.errors import LocalProtocolError
from vicinal_edge.agent.journal import Journal
from vicinal_hw.flash.emulated import EmulatedFlash, PowerCut

MICROPYTHON = sys.implementation.name == "micropython"


class Chance:
    def __init__(self, seed):
        self.state = (seed * 7919 + 13) & 0x3FFFFFFF
        for _ in range(4):
            self(2)

    def __call__(self, n):
        self.state = (self.state * 1103515 + 12345) & 0x3FFFFFFF
        return (self.state >> 9) % n


class Life:
    """A device that works, loses power and starts again, and everything that it was told."""

    def __init__(self, flash, seed, reserve=4):
        self.flash = flash
        self.chance = Chance(seed)
        self.reserve = reserve
        self.written = {}  # seq: data, of all that was appended
        self.sure = []  # seqs that are on flash and not done, in order
        self.done = set()
        self.given = 0
        self.dropped = 0
        self.now = 0
        self.boots = 0
        self.start()

    def start(self):
        self.flash.power_on()
        self.journal = Journal(self.flash, 90, 1000, self.reserve)
        self.boots += 1
        self.ram = []
        self.check_start()

    def check_start(self):
        """What is there after a start: all that was sure, but what had to give way; nothing that never was."""
        journal = self.journal
        found = []
        probe = Journal(self.flash, 90, 1000, self.reserve)
        probe._write = lambda *_: True  # it only looks
        while True:
            first = probe.first()
            if first is None:
                break
            assert self.written[first[0]] == first[1], first
            found.append(first[0])
            assert probe.done(first[0])
        assert found == sorted(found)
        assert len(found) == journal.stored, (found, journal.stored)
        missing = [seq for seq in self.sure if seq not in found]
        assert missing == self.sure[: len(missing)], (missing, self.sure)
        gave_way = journal.dropped - self.dropped
        assert len(missing) <= gave_way, (missing, gave_way, found)
        assert journal.damaged == 0
        self.sure = found
        self.dropped = journal.dropped

    def step(self):
        """Something that a device does; PowerCut comes out of it."""
        what = self.chance(10)
        journal = self.journal
        self.now += self.chance(400)
        if what < 5:
            seq = journal.take_seq()
            assert seq > self.given, (seq, self.given)
            self.given = seq
            data = b"%d:" % seq + bytes(self.chance(30))
            self.written[seq] = data
            self.ram.append(seq)
            journal.append(seq, data, self.now)
        elif what < 8:
            first = journal.first()
            if first is not None:
                want = (self.sure + self.ram)[0]
                assert first == (want, self.written[want]), (first[0], want)
                self.done.add(first[0])
                (self.sure or self.ram).pop(0)
                assert not journal.done(first[0] + 1)
                assert journal.done(first[0])
        elif what == 8:
            journal.handle_timeout(self.now)
        else:
            journal.flush()
        self.settle()

    def settle(self):
        """What has gone to flash, and what has given way there, since the last look."""
        journal = self.journal
        in_ram = len(journal._ram)
        while len(self.ram) > in_ram:
            self.sure.append(self.ram.pop(0))
        for _ in range(journal.dropped - self.dropped):
            self.sure.pop(0)
        self.dropped = journal.dropped
        assert journal.stored == len(self.sure) + len(self.ram), (journal.stored, self.sure, self.ram)

    def live(self, steps):
        """Whether it lived that long."""
        try:
            for _ in range(steps):
                self.step()
        except PowerCut:
            return False
        return True


STEPS = 60 if MICROPYTHON else 160


def writes_of(seed, steps=STEPS, sectors=4):
    flash = EmulatedFlash(sectors, 256)
    life = Life(flash, seed)
    assert life.live(steps)
    return flash.writes


def test_power_cut_at_every_write():
    cuts = 0
    for seed in range(1 if MICROPYTHON else 3):
        for at in range(writes_of(seed)):
            for tear in range(2 if MICROPYTHON else 4):
                flash = EmulatedFlash(4, 256)
                life = Life(flash, seed)
                flash.cut(at, Chance(seed * 1000 + at * 10 + tear))
                assert not life.live(STEPS)
                life.start()
                cuts += 1
                assert life.live(30)
                # And a second cut, soon after the first.
                flash.cut(life.chance(6), life.chance)
                if not life.live(40):
                    life.start()
                assert life.live(20)
    assert cuts > 20, cuts


def test_many_lives_of_one_flash():
    flash = EmulatedFlash(5, 512)
    life = Life(flash, 7)
    for number in range(20 if MICROPYTHON else 300):
        flash.cut(life.chance(25), Chance(number))
        if not life.live(100):
            life.start()
        else:
            flash.power_on()
    most, least = max(flash.erases), min(flash.erases)
    assert most - least <= 3 + life.boots // 5, flash.erases


def test_what_a_gateway_takes_at_once_is_not_written():
    flash = EmulatedFlash(8, 4096)
    journal = Journal(flash)
    for number in range(1024):
        seq = journal.take_seq()
        journal.append(seq, b"x" * 60, number * 10)
        assert journal.first() == (seq, b"x" * 60)
        journal.done(seq)
        journal.handle_timeout(number * 10)
    assert flash.writes == 2 + 1024 // 256, flash.writes  # a header, and a number ahead for 256 events
    assert (journal.appended, journal.delivered, journal.stored, journal.dropped) == (1024, 1024, 0, 0)


def test_an_outage_is_on_flash_after_a_while():
    flash = EmulatedFlash(8, 4096)
    journal = Journal(flash, 2048, 2000)
    seq = journal.take_seq()
    before = flash.writes
    journal.append(seq, b"a", 100)
    assert journal.next_timeout() == 2100
    journal.handle_timeout(2099)
    assert flash.writes == before
    journal.handle_timeout(2100)
    assert flash.writes == before + 1
    assert journal.next_timeout() is None
    again = Journal(flash)
    assert again.first() == (seq, b"a")
    assert again.take_seq() > seq
    assert again.stored == 1
    again.done(seq)
    assert Journal(flash).stored == 0


def test_the_oldest_give_way_and_are_counted():
    flash = EmulatedFlash(4, 256)
    journal = Journal(flash, 0)
    seqs = []
    for number in range(100):
        seqs.append(journal.take_seq())
        journal.append(seqs[-1], b"%020d" % number, number)
    assert journal.stored + journal.dropped == 100
    assert 0 < journal.stored < 24
    again = Journal(flash)
    assert (again.stored, again.dropped) == (journal.stored, journal.dropped)
    for number in range(100 - again.stored, 100):
        assert again.first() == (seqs[number], b"%020d" % number)
        again.done(seqs[number])
    assert again.first() is None


def test_numbers_are_never_used_again_even_if_a_header_goes_bad():
    for seed in range(200):
        flash = EmulatedFlash(4, 256)
        given, chance = 0, Chance(seed)
        bad = chance(4)
        for life in range(6):
            journal = Journal(flash, 90, 1000, 4)
            for _ in range(chance(100)):
                seq = journal.take_seq()
                assert seq > given
                given = seq
            if life == bad:
                newest = journal._order[-1][0] if journal._order and chance(2) else chance(4)
                flash.memory[newest][chance(36)] ^= 1 << chance(8)


def test_damage_costs_no_more_than_its_sector():
    for seed in range(30):
        flash, chance = EmulatedFlash(8, 256), Chance(seed)
        journal = Journal(flash, 0, 1000, 64)
        for number in range(25):
            journal.append(journal.take_seq(), b"%04d" % number, number)
        sector, at = chance(4), 40 + chance(200)
        flash.memory[sector][at] ^= 1 << chance(8)
        again, found = Journal(flash), []
        while True:
            first = again.first()
            if first is None:
                break
            found.append(int(first[1]))
            again.done(first[0])
        assert found == sorted(found)
        assert len(found) >= 25 - 10, found


class BadFlash(EmulatedFlash):
    bad = ()

    def program(self, sector, offset, data):
        if sector in self.bad:
            raise OSError(5)
        super().program(sector, offset, data)


def test_a_sector_that_fails_is_left_out():
    flash = BadFlash(6, 256)
    flash.bad = (2,)
    journal = Journal(flash, 0)
    for number in range(40):
        journal.append(journal.take_seq(), b"%04d" % number, number)
    assert journal.faults >= 1
    assert journal.stored + journal.dropped == 40
    assert journal.stored >= 10
    again = Journal(flash)
    assert again.stored == journal.stored
    flash.bad = tuple(range(6))
    journal = Journal(flash, 100)
    for number in range(20):
        journal.append(1 << 40, b"%04d" % number, number)
    assert journal.stored + journal.dropped - again.stored >= 20
    try:
        for _ in range(1000):
            journal.take_seq()
        said = ""
    except LocalProtocolError as error:
        said = str(error)
    assert "all sectors of the journal fail" in said


def test_limits():
    for sectors, size, said in ((2, 4096, "2 of 4096"), (4, 100, "4 of 100"), (4, 300, "4 of 300")):
        try:
            Journal(EmulatedFlash(sectors, size))
            found = ""
        except LocalProtocolError as error:
            found = str(error)
        assert said in found, found
    journal = Journal(EmulatedFlash(4, 256), 0)
    journal.append(journal.take_seq(), bytes(journal.max_event), 0)
    assert journal.first()[1] == bytes(journal.max_event)
    try:
        journal.append(journal.take_seq(), bytes(journal.max_event + 1), 0)
        found = ""
    except LocalProtocolError as error:
        found = str(error)
    assert f"is {journal.max_event + 1}, the limit is {journal.max_event}" in found
