// The map: the town's own roads and areas, no tiles. Vehicles are drawn by the graphics card, monitors are buttons.

import { Map as GlMap, Marker, NavigationControl, ScaleControl } from "./lib/maplibre-gl.mjs";
import { css, dark, numbers, theme, tint } from "./colours.js";
import { byId, h } from "./dom.js";
import { drawLabels, labelsOf } from "./labels.js";
import { Motion } from "./motion.js";
import { carImage } from "./cars.js";

const TINT = 0.3;
const FRAME = 100; // ms between two drawings of the vehicles: smooth enough, and easy on a phone
const empty = { type: "FeatureCollection", features: [] };
const ROAD_WIDTH = ["interpolate", ["exponential", 1.6], ["zoom"], 13, ["+", 2, ["*", 1.2, ["get", "lanes"]]], 17, ["+", 6, ["*", 7, ["get", "lanes"]]]];

export class TownMap {
  // `chooseMonitor(name)` and `chooseVehicle(name)` are called for clicks and for keys.
  constructor(network, chooseMonitor, chooseVehicle) {
    this.network = network;
    this.motion = new Motion();
    this.markers = new Map();
    this.chooseMonitor = chooseMonitor;
    this.ready = false;
    this.areas = [];
    const colours = theme();
    this.gl = new GlMap({
      container: byId("map"),
      style: style(network, colours),
      bounds: boundsOf(network),
      fitBoundsOptions: { padding: 20 },
      attributionControl: false,
      dragRotate: false,
      pitchWithRotate: false,
      maxPitch: 0,
      minZoom: 11,
      maxZoom: 19,
      fadeDuration: 0,
    });
    this.gl.touchZoomRotate.disableRotation();
    this.gl.keyboard.disableRotation();
    this.gl.addControl(new NavigationControl({ showCompass: false }), "top-left");
    this.gl.addControl(new ScaleControl({ maxWidth: 90 }), "bottom-left");
    this.gl.getCanvas().setAttribute("aria-label", `Map of ${network.name}; arrow keys move it, plus and minus zoom`);
    this.gl.on("style.load", () => {
      this.ready = true;
      this.paint();
      this.gl.getSource("labels").setData(labelsOf(network)); // not before their pictures
      this.show(this.town);
      this.drive();
    });
    this.gl.on("click", "vehicles", (event) => chooseVehicle(event.features[0].properties.vehicle));
    for (const [happens, cursor] of [["mouseenter", "pointer"], ["mouseleave", ""]]) {
      this.gl.on(happens, "vehicles", () => { this.gl.getCanvas().style.cursor = cursor; });
    }
    dark.addEventListener("change", () => this.paint());
  }

  // In the colours of the theme: at the start, and when it is evening.
  paint() {
    if (!this.ready) return;
    const colours = theme();
    for (const [name, key] of [["car", "car"], ["car-over", "over"]]) {
      const image = carImage(colours[key], colours["car-edge"], name === "car-over");
      if (this.gl.hasImage(name)) this.gl.updateImage(name, image);
      else this.gl.addImage(name, image, { pixelRatio: 2 });
    }
    drawLabels(this.gl, this.network, colours);
    this.gl.setPaintProperty("ground", "background-color", colours.ground);
    this.gl.setPaintProperty("casing", "line-color", colours.casing);
    this.gl.setPaintProperty("roads", "line-color", colours.road);
    this.gl.setPaintProperty("reach", "fill-color", colours.accent);
    this.gl.setPaintProperty("reach-line", "line-color", colours.accent);
    this.gl.setPaintProperty("path", "line-color", colours.over);
    this.tint(this.areas);
  }

  // What is new of this town. `still`: it is the past, and vehicles stand where they were.
  show(town, still = false) {
    if (!town) return;
    this.town = town;
    this.motion.follow(town, still);
    if (!this.ready) return;
    if (town.areas !== this.areas) this.tint(town.areas);
    if (town.monitors !== this.monitors) this.place(town.monitors);
  }

  // All of it, with what monitors hear beyond the roads.
  fit() {
    const places = [...boundsOf(this.network), ...this.monitors.flatMap((one) => circle(one.lon, one.lat, one.reach_m).geometry.coordinates[0])];
    this.gl.fitBounds(around(places), { padding: 20, animate: false });
  }

  tint(areas) {
    this.areas = areas;
    const ground = numbers(theme().ground);
    const pairs = areas.flatMap((one) => [one.name, tint(one.limit, ground, TINT)]);
    this.gl.setPaintProperty("areas", "fill-color", pairs.length ? ["match", ["get", "name"], ...pairs, css(ground)] : css(ground));
  }

  place(monitors) {
    const first = !this.monitors?.length && monitors.length;
    this.monitors = monitors;
    if (first) this.fit();
    const circles = monitors.map((one) => circle(one.lon, one.lat, one.reach_m));
    this.gl.getSource("reach").setData({ type: "FeatureCollection", features: circles });
    for (const one of monitors) {
      let known = this.markers.get(one.name);
      if (!known) {
        const button = h("button", { type: "button", class: "sign", "data-monitor": one.name, onclick: (event) => { event.stopPropagation(); this.chooseMonitor(one.name); } });
        known = new Marker({ element: button, anchor: "center" }).setLngLat([one.lon, one.lat]).addTo(this.gl);
        this.markers.set(one.name, known);
      }
      const button = known.getElement();
      const value = one.shown ?? "?";
      button.classList.toggle("changing", !one.done);
      button.title = one.problem ? `${one.name}: ${one.problem}` : "";
      button.dataset.shown = value;
      button.setAttribute("aria-label", `Monitor ${one.name} shows ${value}${one.done ? "" : `, will show ${one.limit}`}${one.problem ? `; ${one.problem}` : ""}. Set the limit`);
      button.replaceChildren(h("span", { class: "value" }, String(value)), h("span", { class: "name" }, one.name));
    }
  }

  // Again and again, if anything has moved; as much time as drawing takes is left to others, so who draws slowly draws less often.
  drive() {
    const begun = performance.now();
    const again = () => setTimeout(() => this.drive(), Math.max(FRAME, performance.now() - begun));
    if (!this.town || document.hidden || !byId("map").clientWidth) return again();
    const vehicles = this.motion.vehicles();
    const drawn = JSON.stringify(vehicles);
    if (drawn === this.drawn) return again();
    this.drawn = drawn;
    this.gl.getSource("vehicles").setData(vehicles);
    this.gl.once("idle", again);
  }

  // The first hop of an event: from where the vehicle was to the monitors that heard it.
  trace(place, monitors) {
    if (!this.ready) return;
    const ends = place ? (this.monitors ?? []).filter((one) => monitors.includes(one.name)) : [];
    const features = ends.map((one) => ({ type: "Feature", properties: {}, geometry: { type: "LineString", coordinates: [place, [one.lon, one.lat]] } }));
    this.gl.getSource("path").setData({ type: "FeatureCollection", features });
  }

  resize() {
    this.gl.resize();
  }
}

function style(network, colours) {
  const of = (kind) => ({ type: "FeatureCollection", features: network.features.filter((one) => one.properties.kind === kind) });
  const source = (data) => ({ type: "geojson", data });
  const round = { "line-cap": "round", "line-join": "round" };
  return {
    version: 8,
    sources: {
      areas: source(of("area")), roads: source(of("road")), labels: source(empty),
      reach: source(empty), vehicles: source(empty), path: source(empty),
    },
    layers: [
      { id: "ground", type: "background", paint: { "background-color": colours.ground } },
      { id: "areas", type: "fill", source: "areas", layout: { "fill-sort-key": ["get", "rank"] }, paint: { "fill-color": colours.ground } },
      { id: "casing", type: "line", source: "roads", layout: round, paint: { "line-color": colours.casing, "line-width": ROAD_WIDTH } },
      { id: "roads", type: "line", source: "roads", layout: round, paint: { "line-color": colours.road, "line-width": inner(ROAD_WIDTH) } },
      { id: "reach", type: "fill", source: "reach", paint: { "fill-color": colours.accent, "fill-opacity": 0.07 } },
      { id: "reach-line", type: "line", source: "reach", paint: { "line-color": colours.accent, "line-width": 1.5, "line-dasharray": [3, 2], "line-opacity": 0.8 } },
      { id: "labels", type: "symbol", source: "labels", minzoom: 13.6, layout: { "symbol-placement": "line-center", "icon-image": ["concat", "road-", ["get", "name"]], "icon-rotation-alignment": "map", "icon-padding": 6 } },
      { id: "path", type: "line", source: "path", layout: round, paint: { "line-color": colours.over, "line-width": 3, "line-dasharray": [1, 1.6] } },
      { id: "vehicles", type: "symbol", source: "vehicles", layout: { "icon-image": ["case", ["get", "over"], "car-over", "car"], "icon-rotate": ["get", "heading"], "icon-rotation-alignment": "map", "icon-allow-overlap": true, "icon-ignore-placement": true, "symbol-sort-key": ["case", ["get", "over"], 1, 0], "icon-size": ["interpolate", ["linear"], ["zoom"], 13, 0.75, 16, 1.1] } },
    ],
  };
}

// A road is its casing's width less a pixel on each side.
function inner(width) {
  return width.map((one) => (Array.isArray(one) && one[0] === "+" ? ["-", one, 2] : one));
}

function boundsOf(network) {
  const places = network.features.filter((one) => one.properties.kind === "road").flatMap((one) => one.geometry.coordinates);
  return around(places);
}

function around(places) {
  const [lons, lats] = [places.map((one) => one[0]), places.map((one) => one[1])];
  return [[Math.min(...lons), Math.min(...lats)], [Math.max(...lons), Math.max(...lats)]];
}

function circle(lon, lat, metres) {
  const [x, y] = [metres / (111_320 * Math.cos((lat * Math.PI) / 180)), metres / 111_320];
  const ring = Array.from({ length: 65 }, (_, step) => {
    const angle = (step * Math.PI) / 32;
    return [lon + x * Math.cos(angle), lat + y * Math.sin(angle)];
  });
  return { type: "Feature", properties: {}, geometry: { type: "Polygon", coordinates: [ring] } };
}
