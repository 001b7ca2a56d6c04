// Where vehicles are between what they have said. They say it once a second, so they are drawn a little later than now:
// between two sightings that are both known. In the past they stand where they were last heard.

import { milliseconds } from "./format.js";

const LATER = 1_200; // ms
const FRESH = 3_000; // heard no longer ago than this, as the office has it
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Motion {
  follow(town, past) {
    this.town = town;
    this.past = past;
    // Clocks differ, and news take a while: the least difference is the best guess.
    const ahead = town.now - performance.now();
    this.ahead = this.of === town && this.ahead > ahead - 2_000 ? Math.max(this.ahead, ahead) : ahead;
    this.of = town;
  }

  get time() {
    return this.past ? this.town.now : performance.now() + this.ahead - (still.matches ? 0 : LATER);
  }

  vehicles() {
    const time = this.time;
    const over = new Set();
    for (const one of this.town.cases.values()) {
      const last = milliseconds(one.last);
      if (one.state !== "void" && last >= time - FRESH && milliseconds(one.first) <= time) over.add(one.vehicle);
    }
    const features = [];
    for (const [vehicle, track] of this.town.vehicles) {
      const at = this.past || still.matches ? last(track, time) : between(track, time);
      if (!at) continue;
      const [lon, lat, heading] = at;
      features.push({ type: "Feature", properties: { vehicle, heading, over: over.has(vehicle) }, geometry: { type: "Point", coordinates: [lon, lat] } });
    }
    return { type: "FeatureCollection", features };
  }
}

function last(track, time) {
  const one = track[track.length - 1];
  return time - one.time <= FRESH ? [one.lon, one.lat, one.heading ?? 0] : null;
}

function between(track, time) {
  const after = track.findIndex((one) => one.time > time);
  if (after < 0) return last(track, time);
  if (after === 0) return null; // not heard yet
  const [a, b] = [track[after - 1], track[after]];
  if (b.time - a.time > FRESH) return time - a.time <= FRESH ? [a.lon, a.lat, a.heading ?? 0] : null;
  const part = (time - a.time) / (b.time - a.time);
  const turn = ((((b.heading ?? 0) - (a.heading ?? 0)) % 360) + 540) % 360 - 180;
  return [a.lon + (b.lon - a.lon) * part, a.lat + (b.lat - a.lat) * part, (a.heading ?? 0) + turn * part];
}
