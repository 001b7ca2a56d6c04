// Times and numbers as people read them. Times are ms, or ISO text as in cases.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export const milliseconds = (time) => (typeof time === "string" ? Date.parse(time) : time);

// A vehicle may say any time: one that no calendar has is shown as none.
const MOST = 8.64e15;

export const timeOf = (time) => (Math.abs(milliseconds(time)) <= MOST ? clock.format(milliseconds(time)) : "–");

export const preciseTime = (time) => (timeOf(time) === "–" ? "–" : `${timeOf(time)}.${String(milliseconds(time) % 1000).padStart(3, "0")}`);

export const rate = (value) => (value === null || value === undefined ? "–" : value < 10 ? value.toFixed(1) : String(Math.round(value)));

export const seconds = (ms) => (ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`);

export const money = (one) => (Number(one.fine) ? `${one.fine.replace(/\.00$/, "")} ${one.currency === "EUR" ? "€" : one.currency}` : "none");

// p-3poqmyqqrffhkd2k is too long for a row, and tells nobody more than its beginning.
export const shortName = (vehicle) => (vehicle.length > 10 ? `${vehicle.slice(0, 8)}…` : vehicle);

// What became of an event; anything else is why it is in quarantine.
export const MEANS = { over: "over the limit", within: "within the limit or its tolerance", witnessed: "over the limit, as another monitor said before", sightings: "where it was is kept" };
