// The way of an event, hop by hop: when it was where, how long it took, what it was mapped to and in which scopes it was
// (the viewer of seed 001, 6.4).

import { ask } from "./ask.js";
import { h } from "./dom.js";
import { MEANS, preciseTime, shortName } from "./format.js";

const KINDS = { vehicle: "Vehicle", monitor: "Roadside monitor", broker: "Broker", office: "Traffic control" };

export const pathsOf = (vehicle, seq) => ask(`/api/events/${vehicle.split("/").map(encodeURIComponent).join("/")}/${seq}`).then((found) => found.paths);

// The first as it is; others, of monitors that heard it too, are opened by who wants to.
export function drawPaths(paths) {
  return paths.map((path, place) => {
    const title = [`${path.subject} `, h("span", { class: "soft" }, `through ${path.monitor}, ${timeOf(path)} ms in all`)];
    const made = drawPath(path);
    return place === 0
      ? h("div", { class: "path" }, h("h3", {}, title), made)
      : h("details", { class: "path" }, h("summary", {}, title), made);
  });
}

const timeOf = (path) => path.hops[path.hops.length - 1].time - path.hops[0].time;

function drawPath(path) {
  const first = path.hops[0].time;
  const whole = Math.max(1, timeOf(path));
  let before = first;
  const items = path.hops.map((hop) => {
    const took = hop.time - before; // less than nothing where two clocks differ
    const from = ((before - first) / whole) * 100;
    before = hop.time;
    return h("li", { class: `hop ${hop.kind}`, "data-kind": hop.kind },
      h("div", { class: "line" }, h("strong", {}, nameOf(hop)), h("span", { class: "kind" }, KINDS[hop.kind]), h("span", { class: "took" }, hop.time === first ? preciseTime(hop.time) : `${took < 0 ? "−" : "+"}${Math.abs(took)} ms`)),
      h("div", { class: "span", title: preciseTime(hop.time) }, h("span", { style: `left: ${Math.min(99, Math.max(0, from))}%; width: ${Math.max(1, (took / whole) * 100)}%` })),
      notes(hop, path).map((text) => h("p", {}, text)));
  });
  return h("ol", { class: "hops" }, items);
}

const nameOf = (hop) => (hop.kind === "vehicle" ? shortName(hop.where) : hop.where.split("/")[0]);

// What happened to it there.
function notes(hop, path) {
  const code = (text) => h("code", {}, text);
  if (hop.kind === "vehicle") return [["COSMIC on CAN → event → STEAM on the air. ", ...params(path)]];
  if (hop.kind === "monitor") {
    const found = [["heard by ", code(hop.where.split("/")[1] ?? hop.where), ", STEAM → SIENA"]];
    if (path.filter) found.push(["passed ", code(path.filter)]);
    if (path.hops[0].where.startsWith("p-")) found.push(["whose it is became the pseudonym ", code(path.hops[0].where)]);
    return found;
  }
  if (hop.kind === "broker") {
    return hop.scopes.filter((one) => one.length).map((one, place) => [place ? "mapped to " : "in scopes ", ...one.flatMap((scope) => [h("span", { class: "scope" }, scope), " "])]);
  }
  return [[`judged: ${MEANS[path.verdict] ?? `in quarantine, ${path.verdict}`}`, path.params.license_no ? `; plate ${path.params.license_no} came with the offence` : ""]];
}

function params(path) {
  const shown = Object.entries(path.params).filter(([name]) => name !== "license_no").map(([name, value]) => {
    const text = name === "lat" || name === "lon" ? (value / 1e7).toFixed(5) : typeof value === "number" ? String(Math.round(value * 10) / 10) : String(value);
    return `${name} ${text}`;
  });
  return shown.length ? [h("code", {}, shown.join(", "))] : [];
}
