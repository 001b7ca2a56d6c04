"""What scopes amount to, by brute force, with nothing of vicinal: the reference that vicinal.scope is held against."""

from collections import namedtuple

# out, into: {superscope: condition}; up, down: {superscope: form -> form or None}; say, hear: who may, none: all
Scope = namedtuple("Scope", "dimension supers out into up down session traverse delivery delay say hear")
Part = namedtuple("Part", "scopes rest takes")


class World(namedtuple("World", "scopes parts advanced turns")):  # turns: {scope: whose turn it was}, of one-of-n
    def ways(self, event, at, goal, up=True):
        """Every way between scopes of a dimension, as the papers write it: up and then down, through all interfaces."""
        if at == goal:
            yield (at,)
        steps = [(s, True) for s in self.scopes[at].supers if up and self.scopes[at].out[s](event)]
        steps += [(s, False) for s, scope in self.scopes.items() if at in scope.supers and scope.into[at](event)]
        for name, still in steps:
            yield from ((at, *way) for way in self.ways(event, name, goal, still))

    def may(self, who, scopes, action):
        return [name for name in scopes if who in (getattr(self.scopes[name], action) or [who])]

    def inside(self, who, d):
        return [name for name in self.parts[who].scopes if self.scopes[name].dimension == d]

    def seen(self, event, p, c, dimension):
        """Visible in one dimension."""
        starts, goals = self.inside(p, dimension), self.inside(c, dimension)
        open = (starts or self.parts[p].rest or not goals) and (goals or self.parts[c].rest or not starts)
        says, hears = self.may(p, starts or goals, "say"), self.may(c, goals or starts, "hear")
        met = any(any(self.ways(event, s, g)) for s in says for g in hears) if starts and goals else {*says} & {*hears}
        return bool(open and (met or not (starts or goals)))


def deliver(world, p, event, anew=False):
    """[(when, who, through which scope, form)] of one publication at 0, in order. `anew`: what was held is another."""
    scopes, mine = world.scopes, world.advanced
    dimensions = {scope.dimension for scope in scopes.values()}
    if any(world.inside(p, d) and not world.may(p, world.inside(p, d), "say") for d in dimensions):
        return []

    def tag(form, scope):
        return form | {"$Session": scope} if scopes[scope].session else form

    def enters(form, scope, at=None):  # whether it may be, or the session `at` is, in a scope
        at = at or form.get("$Session")
        free = not scopes[scope].session or at in (None, scope)
        return free or any(enters(form, scope, s) for s in scopes[at].supers)

    def hears(scope, form):
        rows = [c for c in plain if scope in world.parts[c].scopes and c not in got and world.may(c, [scope], "hear")]
        return sorted(c for c in rows if world.parts[c].takes(form))

    def below(scope, form):
        subs = [t for t in sorted(scopes) if scope in scopes[t].supers and t not in taken]
        into = {t: scopes[t].down[scope](form) for t in subs if scopes[t].into[scope](form)}
        return {t: tag(inner, t) for t, inner in into.items() if inner}

    def anybody(scope, form):
        return hears(scope, form) or any(anybody(*one) for one in below(scope, form).items())

    def hand(scope, form, now):
        members, subs = hears(scope, form), below(scope, form)
        down = [t for t in subs if scopes[scope][7:9] == ("broadcast", "all") or anybody(t, subs[t])]
        order = {"broadcast": [members + down], "top-down": [members, down], "bottom-up": [down, members]}
        chosen = sorted(next(filter(None, order[scopes[scope].traverse]), []))
        if scopes[scope].delivery == "one-of-n" and chosen:
            chosen = [min(chosen, key=lambda name: (name <= world.turns.get(scope, ""), name))]
            world.turns[scope] = chosen[0]
        for name in sorted(chosen, key=lambda name: name in subs):
            if name in subs and name not in taken:
                taken.add(name)
                hand(name, subs[name], now)
            elif name not in subs | dict.fromkeys(got):
                got.add(name)
                found.append((now, name, scope, form))

    bottom = sorted(s for s in scopes if scopes[s].dimension == mine) if world.parts[p].rest else []
    starts = [s for s in world.may(p, world.inside(p, mine) or bottom, "say") if enters(event, s)]
    plain = [c for c in world.parts if c != p and all(world.seen(event, p, c, d) for d in dimensions - {mine})]
    taken, got, found, held = set(), set(), [], [(0, "", [((s,), event) for s in starts])]
    while held:
        (now, at, ups), *held = sorted(held, key=lambda one: one[:2])
        taken, got, rising = ({at}, set(), {}) if anew and now else (taken, got, {})
        while ups := [(path, form) for path, form in ups if path[-1] not in taken]:
            level = {path[-1]: (path, tag(form, path[-1])) for path, form in sorted(ups, key=lambda one: one[0])[::-1]}
            taken.update(level)
            ups = []
            for path, form in sorted(level.values(), key=lambda one: one[0]):
                scope, rising[path[-1]] = scopes[path[-1]], form
                later = scope.delay and (not anew or world.inside(p, mine))
                outer = [((*path, s), scope.up[s](form)) for s in scope.supers if (later and anew) or s not in taken]
                outer = [(way, f) for way, f in outer if f and scope.out[way[-1]](f) and enters(f, way[-1])]
                (held.append((now + scope.delay, path[-1], outer)) if later else ups.extend(outer))
        for scope, form in rising.items():
            hand(scope, form, now)
        for c in sorted(c for c in plain if not now and not world.inside(c, mine) and world.parts[c].takes(event)):
            if not world.inside(p, mine) or (world.parts[c].rest and world.may(c, starts, "hear")):
                found.append((0, c, None, event))
    return found
