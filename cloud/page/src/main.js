// The live page of traffic control. What the office tells goes into a Town; what is shown is drawn from one: that of now,
// or that of the moment the slider is at.

import { ask } from "./ask.js";
import { drawCases } from "./cases.js";
import { Detail } from "./detail.js";
import { byId, h } from "./dom.js";
import { drawEvents } from "./events.js";
import { timeOf } from "./format.js";
import { drawLegend } from "./legend.js";
import { askLimit } from "./limit.js";
import { listen } from "./live.js";
import { TownMap } from "./map.js";
import { Diagram } from "./overlay.js";
import { Rates } from "./rates.js";
import { tabs } from "./tabs.js";
import { Timebar } from "./timebar.js";
import { Town, townThen } from "./town.js";

const now = new Town();
let then = null;
export let map = null;
let paths = [];
export const shown = () => then ?? now;

const detail = new Detail((found, place) => {
  paths = found;
  const seen = place ?? placeOf(found[0]);
  map?.trace(seen, found.map((one) => one.monitor));
  drawOverlay();
});
const diagram = new Diagram();
const rates = new Rates();
const timebar = new Timebar((found) => {
  then = found ? townThen(found) : null;
  draw();
});

tabs(document.querySelector("header .tabs"), (id) => {
  if (id === "tab-map") map?.resize();
  drawOverlay();
});
tabs(document.querySelector("#lists .tabs"), () => drawLists());

const setLimit = (area, monitor) => {
  if (timebar.past) timebar.back(); // limits are set for now
  askLimit(now, area, monitor);
};
const chooseMonitor = (name) => setLimit(now.monitors.find((one) => one.name === name).area, name);
const chooseVehicle = (name) => {
  const last = shown().events.find((one) => one.vehicle === name);
  if (last) detail.event(last);
};
const chooseCase = (number) => {
  const one = shown().cases.get(number);
  if (one) detail.case(one, shown()).then(drawLists);
};

// Where the vehicle was when it said it: in the event itself, or where it was heard nearest to that time.
function placeOf(path) {
  if (!path) return null;
  if (path.verdict === "sightings") return [path.params.lon / 1e7, path.params.lat / 1e7];
  const track = shown().vehicles.get(path.vehicle) ?? [];
  const near = track.toSorted((a, b) => Math.abs(a.time - path.hops[0].time) - Math.abs(b.time - path.hops[0].time))[0];
  return near ? [near.lon, near.lat] : null;
}

function drawLists() {
  const town = shown();
  drawCases(town, chooseCase, detail.number);
  if (!byId("view-events").hidden) drawEvents(town, (one) => detail.event(one));
}

function drawOverlay() {
  if (byId("view-overlay").hidden) return;
  diagram.show(shown(), paths[0] ?? null);
  rates.show(now.samples, now.latency, timebar.past ? timebar.then : null);
}

function draw() {
  const town = shown();
  const mode = byId("mode");
  mode.textContent = timebar.past ? "Past" : "Live";
  mode.classList.toggle("past", timebar.past);
  document.body.classList.toggle("past", timebar.past);
  byId("clock").textContent = timeOf(town.now);
  map?.show(town, timebar.past);
  drawLegend(town, (area) => setLimit(area));
  detail.update(town);
  drawLists();
  drawOverlay();
}

async function start() {
  const network = await ask("/api/network").catch(() => null);
  if (!network) {
    setTimeout(start, 2_000);
    return;
  }
  byId("town").textContent = network.name;
  try {
    map = new TownMap(network, chooseMonitor, chooseVehicle);
    if (now.now) draw();
  } catch (problem) {
    byId("map").replaceChildren(h("p", { class: "soft nomap" }, "This browser cannot draw the map: it has no WebGL. Everything else works; limits are set by the list of areas."));
    console.warn(problem);
  }
}

listen((news) => {
  now.merge(news);
  timebar.tick(now.now, now.first);
  if (!timebar.past) draw();
  else drawOverlay();
});
start();
