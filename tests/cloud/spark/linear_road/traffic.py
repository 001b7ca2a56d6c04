"""Small traffic in which much happens: crowds, crashes, exits and returns, in few segments. One seed, one traffic."""

from random import Random

from cloud.spark.linear_road.helpers import Row, balance, expenditure, report


def traffic(seed: int) -> list[Row]:
    random = Random(seed)
    scenes = [_crowd(random) for _ in range(random.randint(0, 4))]
    for scene in (_trip, _crash, _query, _payer):
        scenes += [scene(random) for _ in range(random.randint(0, 6))]
    if random.random() < 0.3:
        scenes.append(_pile_up(random))
    rows = sorted((row for scene in scenes for row in scene), key=lambda row: row[1])
    once: dict[tuple[int, ...], Row] = {}
    for number, row in enumerate(rows):
        # One report a second of a vehicle, as in life: answers have (vid, time) for their key. Queries have numbers.
        key = (row[1], row[2]) if row[0] == 0 else (number,)
        once.setdefault(key, row if row[0] == 0 else (*row[:9], number, *row[10:]))
    return list(once.values())


def _road(random: Random) -> dict[str, int]:
    return {"xway": int(random.random() < 0.1), "dir": int(random.random() < 0.4)}


def _seg(random: Random) -> int:
    return random.choice([0, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 97, 98, 99])


def _crowd(random: Random) -> list[Row]:
    """Some fifty slow vehicles in one segment in one minute."""
    begin, seg, spd = random.randint(0, 8) * 60, _seg(random), random.randint(38, 41)
    road = _road(random)
    rows = [report(begin + n % 60, 1000 + n, seg, spd=spd, **road) for n in range(random.randint(49, 54))]
    rows += [report(begin + 59, vid, seg, spd=spd, **road) for vid in random.sample(range(7), random.randint(0, 2))]
    return rows + [
        report(begin, 2000 + n, seg, spd=random.randint(0, 100), **road) for n in range(random.randint(0, 3))
    ]


def _trip(random: Random) -> list[Row]:
    vid, time, road = random.randint(0, 6), random.randint(0, 300), _road(random)
    seg, lane, pos = _seg(random), 0, 0
    rows = []
    for _ in range(random.randint(1, 14)):
        rows.append(report(time, vid, seg, spd=random.randint(0, 60), lane=lane, pos=seg * 5280 + pos, **road))
        time += random.choice([30, 30, 30, 60, 61, 90])
        match random.choice(["stay", "stay", "stay", "move", "cross", "cross", "lane"]):
            case "move":
                pos = random.randint(0, 2)
            case "cross":
                seg = min(max(seg + random.choice([-1, 1, 1, 2]), 0), 99)
            case "lane":
                lane = random.choice([0, 1, 1, 2, 4])
    return rows


def _crash(random: Random) -> list[Row]:
    """Two or three vehicles come to stand at one place, and perhaps go on."""
    time, seg, lane, road = random.randint(0, 200), _seg(random), random.choice([0, 1, 2]), _road(random)
    rows = []
    for vid in random.sample(range(7), random.randint(2, 3)):
        start, count = time + random.randint(0, 40), random.choice([3, 4, 4, 5, 8])
        lane = lane if random.random() < 0.8 else 3
        rows += [report(start + 30 * n, vid, seg, spd=0, lane=lane, pos=seg * 5280, **road) for n in range(count)]
        if random.random() < 0.5:
            away = start + 30 * (count - 1) + random.choice([30, 30, 61, 120])
            then = min(max(seg + random.randint(-1, 1), 0), 99)
            rows.append(report(away, vid, then, lane=random.choice([0, 1, 1, 4]), pos=then * 5280 + 7, **road))
    return rows


def _pile_up(random: Random) -> list[Row]:
    """Two accidents not far from one another, and one who comes along."""
    road, seg, rows = _road(random), random.randint(4, 90), []
    for number, where in enumerate((seg, seg + random.randint(1, 3))):
        for vid in (20 + 2 * number, 21 + 2 * number):
            start = random.randint(0, 60)
            rows += [report(start + 30 * n, vid, where, spd=0, pos=where * 5280, **road) for n in range(8)]
    return rows + [report(270 + n, 30 + n, seg + random.randint(-3, 6), **road) for n in range(6)]


def _payer(random: Random) -> list[Row]:
    """A crowd, and one who comes into it in a minute after, goes on, leaves, comes back, and asks what it cost."""
    minute, seg, road, vid = random.randint(0, 6), _seg(random), _road(random), random.randint(10, 12)
    spd = random.randint(20, 39)
    rows = [report(minute * 60 + n % 60, 3000 + n, seg, spd=spd, **road) for n in range(random.randint(49, 53))]
    time = (minute + random.choice([1, 1, 1, 2])) * 60 + random.randint(0, 59)
    for _ in range(random.randint(2, 7)):
        lane = random.choice([0, 1, 1, 1, 4])
        rows.append(report(time, vid, seg, lane=lane, pos=seg * 5280 + random.randint(0, 3), **road))
        if random.random() < 0.7:
            rows.insert(-random.randint(0, 1) or len(rows), balance(time + random.randint(-1, 1), vid, 0))
        time += random.choice([30, 30, 45, 60, 61, 150])
        seg = min(max(seg + random.choice([0, 1, 1, -1]), 0), 99)
    return rows


def _query(random: Random) -> list[Row]:
    time, vid = random.randint(0, 900), random.choice([*range(7), 1001])
    if random.random() < 0.7:
        return [balance(time, vid, 0)]
    return [expenditure(time, vid, 0, random.randint(1, 3), random.randint(0, 1))]
