// The overlay as the office sees it: vehicles, monitors, brokers and itself, with how many events a second go over each
// link. Which is beside which follows from the links; who does not answer is shown as down.

import { byId, svg } from "./dom.js";
import { rate } from "./format.js";

const NODE = { width: 132, height: 70 };
const GAP = 62; // between two columns: a rate stands there
const TITLES = { gateway: "monitor", broker: "broker", office: "traffic control", vehicles: "" };

export class Diagram {
  constructor() {
    this.place = byId("diagram");
    new ResizeObserver(() => this.draw()).observe(this.place);
  }

  // `path` is that of an event, or null: its places and links are marked.
  show(town, path) {
    this.town = town;
    this.path = path;
    this.draw();
  }

  draw() {
    const room = this.place.clientWidth;
    const sample = this.town?.sample;
    if (!room) return;
    if (!sample) {
      this.place.textContent = "The first figures come in a few seconds.";
      return;
    }
    const layers = layersOf(sample);
    const deep = layers.length;
    const broad = Math.max(...layers.map((one) => one.length));
    const wide = room / deep > 104 + GAP;
    const width = wide ? Math.min(NODE.width, room / deep - GAP) : Math.min(NODE.width, room / broad - 8);
    const shape = { width, height: NODE.height, wide };
    const size = wide ? [room, Math.max(250, broad * (shape.height + 34))] : [room, deep * (shape.height + 40)];
    const at = new Map();
    layers.forEach((names, depth) => names.forEach((name, place) => {
      const [along, across] = [(depth + 0.5) / deep, (place + 0.5) / names.length];
      at.set(name, shape.wide ? [along * size[0], across * size[1]] : [across * size[0], along * size[1]]);
    }));
    const marked = this.path ? this.path.hops.map(placeOf) : [];
    const picture = svg("svg", { width: size[0], height: size[1], viewBox: `0 0 ${size[0]} ${size[1]}`, role: "img", "aria-label": "The overlay: " + layers.map((one) => one.join(", ")).join(" to ") });
    for (const one of sample.links) if (at.has(one.from) && at.has(one.to)) picture.append(link(one, at, shape, marked));
    for (const [name, where] of at) picture.append(node(name, where, shape, sample, this.town, marked));
    this.place.replaceChildren(picture);
  }
}

const placeOf = (hop) => (hop.kind === "vehicle" ? "vehicles" : hop.where.split("/")[0]);

// From vehicles to the office: how many links each is away from it.
export function layersOf(sample) {
  const names = new Set(["office", ...sample.nodes.map((one) => one.name), ...sample.links.flatMap((one) => [one.from, one.to])]);
  const away = new Map([["office", 0]]);
  const waiting = ["office"];
  while (waiting.length) {
    const name = waiting.shift();
    for (const { from, to } of sample.links) {
      for (const [a, b] of [[from, to], [to, from]]) {
        if (b === name && !away.has(a)) {
          away.set(a, away.get(name) + 1);
          waiting.push(a);
        }
      }
    }
  }
  // Before anything has come to the office nobody is known to be beside it.
  const kinds = new Map(sample.nodes.map((one) => [one.name, one.kind]));
  for (const name of names) if (!away.has(name)) away.set(name, { broker: 1, gateway: 3 }[kinds.get(name)] ?? 4);
  const layers = [];
  for (const name of [...names].sort()) (layers[away.get(name)] ??= []).push(name);
  return untangled(layers.filter(Boolean).reverse(), sample.links);
}

// Each beside those that it is linked with in the layer before, so that few links cross.
function untangled(layers, links) {
  for (let depth = 1; depth < layers.length; depth++) {
    const before = layers[depth - 1];
    const middle = (name) => {
      const places = links.filter((one) => one.to === name || one.from === name).map((one) => before.indexOf(one.to === name ? one.from : one.to)).filter((one) => one >= 0);
      return places.length ? places.reduce((a, b) => a + b, 0) / places.length : before.length / 2;
    };
    layers[depth].sort((a, b) => middle(a) - middle(b));
  }
  return layers;
}

function link({ from, to, rate: value }, at, shape, marked) {
  const [[x1, y1], [x2, y2]] = [at.get(from), at.get(to)];
  const [dx, dy] = shape.wide ? [shape.width / 2, 0] : [0, shape.height / 2];
  const [sx, sy] = [Math.sign(x2 - x1), Math.sign(y2 - y1)];
  const [a, b] = [[x1 + sx * dx, y1 + sy * dy], [x2 - sx * dx, y2 - sy * dy]];
  const [mx, my] = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  const curve = shape.wide ? `M${a} C${mx},${a[1]} ${mx},${b[1]} ${b}` : `M${a} C${a[0]},${my} ${b[0]},${my} ${b}`;
  const place = marked.indexOf(from);
  const on = place >= 0 && marked[place + 1] === to;
  // Where many come together a rate stands nearer to where it comes from.
  const near = (from, to) => from + (to - from) * 0.36;
  return svg("g", { class: `edge${value ? "" : " idle"}${on ? " on" : ""}` },
    svg("path", { d: curve, "stroke-width": on ? 4 : 1.5 + Math.min(4, Math.log2(1 + value)) }),
    svg("text", { x: near(a[0], b[0]), y: near(a[1], b[1]) + 4 - (shape.wide ? (b[1] - a[1]) * 0.14 : 0), class: "rate" }, `${rate(value)}/s`));
}

function node(name, [x, y], shape, sample, town, marked) {
  const known = sample.nodes.find((one) => one.name === name);
  const kind = name === "office" ? "office" : name === "vehicles" ? "vehicles" : (known?.kind ?? "");
  const down = known && !known.up;
  const place = marked.indexOf(name);
  const lower = down || kind === "vehicles" ? 8 : 0; // two lines in the middle
  const box = svg("g", { class: `node ${kind}${down ? " down" : ""}${place >= 0 ? " on" : ""}`, transform: `translate(${x - shape.width / 2}, ${y - shape.height / 2})`, "data-node": name },
    svg("rect", { width: shape.width, height: shape.height, rx: 10 }),
    svg("text", { x: shape.width / 2, y: 22 + lower, class: "name" }, name === "vehicles" ? `${town.vehicles.size} vehicles` : name),
    svg("text", { x: shape.width / 2, y: 38 + lower, class: "kind" }, down ? "does not answer" : kind === "vehicles" ? "heard just now" : (TITLES[kind] ?? kind)),
    svg("text", { x: shape.width / 2, y: 56, class: "figure" }, down ? "" : figure(name, kind, known, sample)));
  if (known?.filters) box.append(svg("title", {}, `asked for: ${known.filters.join("; ")}`));
  return box;
}

function figure(name, kind, known, sample) {
  if (kind === "office") return `${rate(sample.rates.office)}/s heard`;
  if (kind === "gateway") return `${rate(known.rates.kept_back)}/s kept back`;
  if (kind === "broker") return `${rate(sample.links.filter((one) => one.to === name).reduce((sum, one) => sum + one.rate, 0))}/s through`;
  return "";
}
