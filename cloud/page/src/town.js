// What the office has told: all of it, kept up to date by its news. One for now, one for the past that is looked at.

const EVENTS = 200;
const CASES = 200;
const SAMPLES = 150; // of two seconds: five minutes
const TRACK = 4; // sightings of a vehicle, to draw it between them
const GONE = 6_000; // ms after which a vehicle is forgotten

export class Town {
  constructor() {
    this.clear();
  }

  clear() {
    this.now = 0;
    this.vehicles = new Map(); // name -> its last sightings, the oldest first
    this.monitors = [];
    this.areas = [];
    this.cases = new Map();
    this.events = []; // the newest first
    this.samples = [];
    this.counters = null;
    this.latency = null;
    this.first = null;
  }

  // What has changed by it, as a set of names.
  merge(news) {
    if (news.span) this.clear();
    if (news.span) this.first = news.span[0];
    this.now = news.now;
    for (const one of news.vehicles ?? []) {
      const track = this.vehicles.get(one.vehicle) ?? [];
      if (!track.length || track[track.length - 1].time < one.time) track.push(one);
      this.vehicles.set(one.vehicle, track.slice(-TRACK));
    }
    for (const [name, track] of this.vehicles) {
      if (this.now - track[track.length - 1].time > GONE) this.vehicles.delete(name);
    }
    if (news.monitors) this.monitors = news.monitors;
    if (news.areas) this.areas = news.areas;
    for (const one of news.cases ?? []) this.cases.set(one.number, one);
    for (const number of news.gone ?? []) this.cases.delete(number);
    if (this.cases.size > CASES) {
      for (const number of [...this.cases.keys()].sort((a, b) => a - b).slice(0, -CASES)) this.cases.delete(number);
    }
    if (news.events) this.events = [...news.events.toReversed(), ...this.events].slice(0, EVENTS);
    if (news.overlay) this.samples = [...this.samples, ...news.overlay].slice(-SAMPLES);
    if (news.counters) this.counters = news.counters;
    if (news.latency_ms) this.latency = news.latency_ms;
    return new Set(Object.keys(news));
  }

  get latestCases() {
    return [...this.cases.values()].sort((a, b) => b.number - a.number);
  }

  get sample() {
    return this.samples[this.samples.length - 1] ?? null;
  }

  titleOf(area) {
    return this.areas.find((one) => one.name === area)?.title ?? area;
  }
}

export function townThen(then) {
  const made = new Town();
  made.merge({ ...then, span: [0, then.now] });
  return made;
}
