// Events a second over the last minutes: what monitors hear, what leaves the roadside, and what reaches the office. The
// space between the first two is what the limits keep back.

import uPlot from "./lib/uplot.mjs";
import { dark, theme } from "./colours.js";
import { byId, h } from "./dom.js";

const SERIES = [["heard", "heard at the roadside"], ["left", "left the roadside"], ["office", "reached the office"]];
const HEIGHT = 190;
const HOPS = { air: "Vehicle to monitor", uplink: "Monitor to broker", overlay: "Broker to broker", office: "Broker to office", whole: "In all" };

export class Rates {
  constructor() {
    this.place = byId("rates");
    this.then = null;
    dark.addEventListener("change", () => this.make());
    new ResizeObserver(() => {
      if (!this.place.clientWidth) return;
      if (!this.plot) this.make();
      else if (this.plot.width !== this.place.clientWidth) this.plot.setSize({ width: this.place.clientWidth, height: HEIGHT });
    }).observe(this.place);
  }

  make() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.place.clientWidth) return;
    const colours = theme();
    const axis = { stroke: colours.soft, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line }, font: "12px system-ui, sans-serif" };
    this.plot = new uPlot({
      width: this.place.clientWidth,
      height: HEIGHT,
      cursor: { y: false, points: { size: 6 } },
      legend: { live: true },
      scales: { y: { range: (_, low, high) => [0, Math.max(5, (high ?? 0) * 1.15)] } },
      axes: [{ ...axis, values: (_, times) => times.map((one) => new Date(one * 1000).toTimeString().slice(0, 8)), space: 80 }, { ...axis, size: 34 }],
      series: [
        { label: "at", value: (_, time) => (time ? new Date(time * 1000).toTimeString().slice(0, 8) : "–") },
        ...SERIES.map(([key, label]) => ({ label, stroke: key === "left" ? `${colours.left}77` : colours[key], width: key === "left" ? 6 : 2, points: { show: false }, fill: key === "heard" ? `${colours.heard}22` : undefined, value: (_, value) => (value === null || value === undefined ? "–" : `${value.toFixed(1)}/s`) })),
      ],
      hooks: { draw: [(plot) => this.mark(plot, colours)] },
    }, this.data, this.place);
  }

  get data() {
    const samples = this.samples ?? [];
    return [samples.map((one) => one.time / 1000), ...SERIES.map(([key]) => samples.map((one) => one.rates[key]))];
  }

  // `then`: the moment that is looked at, or null.
  show(samples, latency, then) {
    this.samples = samples;
    this.then = then;
    if (this.plot) this.plot.setData(this.data);
    else this.make();
    if (latency) drawLatency(latency);
  }

  mark(plot, colours) {
    if (this.then === null) return;
    const x = plot.valToPos(this.then / 1000, "x", true);
    if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) return;
    plot.ctx.save();
    plot.ctx.strokeStyle = colours.accent;
    plot.ctx.lineWidth = 2;
    plot.ctx.beginPath();
    plot.ctx.moveTo(x, plot.bbox.top);
    plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
    plot.ctx.stroke();
    plot.ctx.restore();
  }
}

function drawLatency(latency) {
  const rows = Object.entries(latency).map(([name, one]) => h("tr", {}, h("th", { scope: "row" }, HOPS[name] ?? name), h("td", {}, String(one.p50)), h("td", {}, String(one.p99))));
  byId("latency").replaceChildren(h("table", {},
    h("caption", {}, "Latency in ms"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Hop"), h("th", { scope: "col" }, "p50"), h("th", { scope: "col" }, "p99"))),
    h("tbody", {}, rows)));
}
