// What was chosen: an event with its path, or an offence with its evidence and the path of the worst of it.

import { byId, h } from "./dom.js";
import { drawCase } from "./cases.js";
import { drawPaths, pathsOf } from "./path.js";
import { shortName } from "./format.js";

const narrow = matchMedia("(max-width: 54rem)");

export class Detail {
  // `traced(paths, place)` is told what is shown, so that the map and the overlay mark it too.
  constructor(traced) {
    this.place = byId("detail");
    this.traced = traced;
    this.number = null;
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.place.hidden && !byId("limit").open) this.close();
    });
  }

  async event(one) {
    this.number = null;
    this.from = document.activeElement;
    this.open(`${one.subject} of ${one.params.license_no ?? shortName(one.vehicle)}`);
    await this.paths(one.vehicle, one.seq);
  }

  // `town` is the one shown, so that the past shows what was known then.
  async case(one, town) {
    this.from = document.activeElement;
    this.number = one.number;
    this.open(`Offence ${one.number}: ${one.license_no}`);
    this.draw(one, town);
    await this.paths(one.vehicle, one.seq, [one.lon, one.lat]);
  }

  // It has changed while it is open.
  update(town) {
    const one = this.number === null ? null : town.cases.get(this.number);
    if (one && JSON.stringify(one) !== this.drawn && !this.body.contains(document.activeElement)) this.draw(one, town);
  }

  draw(one, town) {
    this.drawn = JSON.stringify(one);
    this.body.replaceChildren(drawCase(one, (area) => town.titleOf(area), (moved) => {
      town.cases.set(moved.number, moved);
      this.draw(moved, town);
    }));
  }

  open(title) {
    this.body = h("div", {});
    this.ways = h("div", { class: "paths" }, h("p", { class: "soft" }, "…"));
    const close = h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => this.close() }, "×");
    const heading = h("h2", { tabindex: "-1" }, title);
    this.place.replaceChildren(h("div", { class: "head" }, heading, close), this.body, this.ways);
    this.place.hidden = false;
    heading.focus({ preventScroll: true });
    this.place.scrollIntoView({ block: narrow.matches ? "start" : "nearest" }); // a phone has room for nothing else
  }

  async paths(vehicle, seq, place = null, times = 5) {
    const ways = this.ways;
    try {
      const found = await pathsOf(vehicle, seq);
      if (!ways.isConnected) return; // something else was chosen meanwhile
      ways.replaceChildren(...drawPaths(found));
      this.traced(found, place);
      // By which brokers it came is heard beside it, and perhaps a moment later.
      const whole = found.every((one) => one.hops.some((hop) => hop.kind === "broker"));
      if (!whole && times > 0) setTimeout(() => ways.isConnected && !this.place.hidden && this.paths(vehicle, seq, place, times - 1), 500);
    } catch (problem) {
      ways.replaceChildren(h("p", { class: "soft" }, `Its path: ${problem.message}.`));
      this.traced([], null);
    }
  }

  close() {
    this.place.hidden = true;
    this.number = null;
    this.traced([], null);
    if (this.from?.isConnected) this.from.focus({ preventScroll: true });
  }
}
