// Offences: the table, and one of them with its evidence, its path and what may be done with it.

import { ask } from "./ask.js";
import { byId, h, keyed } from "./dom.js";
import { money, preciseTime, seconds, timeOf } from "./format.js";

const SHOWN = 60;
const DO = { paid: "Paid", appealed: "Appeal", upheld: "Uphold", void: "Void" };
const NEEDS_REASON = new Set(["appealed", "upheld", "void"]);

export function drawCases(town, choose, chosen) {
  const place = byId("view-cases");
  if (!place.firstChild) {
    place.append(
      h("table", {},
        h("thead", {}, h("tr", {}, ["No.", "Plate", "km/h", "Limit", "Fine", "State"].map((one) => h("th", { scope: "col" }, one)))),
        h("tbody")),
      h("p", { class: "soft empty" }, "Nobody was too fast yet. Click a monitor on the map and lower its limit."),
      h("p", { class: "exports" }, "Export ", h("a", { href: "/api/cases.csv", download: "cases.csv" }, "CSV"), " ", h("a", { href: "/api/cases.geojson", download: "cases.geojson" }, "GeoJSON")));
  }
  const latest = town.latestCases;
  byId("count-cases").textContent = latest.length || "";
  const rows = latest.slice(0, SHOWN).map((one) => ({ ...brief(one), chosen: one.number === chosen }));
  keyed(place.querySelector("tbody"), rows, (one) => one.number, (one) =>
    h("tr", { class: one.chosen ? "chosen" : "", "data-state": one.state, onclick: () => choose(one.number) },
      h("td", {}, h("button", { type: "button", class: "link", "aria-label": `Offence ${one.number}, ${one.plate}`, onclick: (event) => { event.stopPropagation(); choose(one.number); } }, String(one.number))),
      h("td", { class: "plate" }, h("span", {}, one.plate)), h("td", { class: "speed" }, String(one.speed)), h("td", {}, String(one.limit)), h("td", {}, one.fine),
      h("td", {}, h("span", { class: `state ${one.state}` }, one.state))));
  place.querySelector(".empty").hidden = rows.length > 0;
  place.querySelector("table").hidden = rows.length === 0;
}

const brief = (one) => ({ number: one.number, plate: one.license_no, speed: Math.round(one.speed_kmh), limit: one.limit_kmh, fine: money(one), state: one.state });

export function drawCase(one, titleOf, moved) {
  const facts = [
    ["Speed", `${Math.round(one.speed_kmh)} km/h, less ${one.tolerance_kmh} for tolerance`],
    ["Limit", `${one.limit_kmh} km/h in ${titleOf(one.area)}, ${one.limit_source === "network" ? "as the town has it" : `set by ${one.limit_source}`}`],
    ["Over", `${one.over_kmh} km/h${one.duration_ms ? ` at most; for ${seconds(one.duration_ms)}` : ""}`],
    ["Fine", `${money(one)}${one.points ? `, ${one.points} ${one.points === 1 ? "point" : "points"}` : ""}`],
    ["Where", `${one.lat.toFixed(5)}, ${one.lon.toFixed(5)}, as the ${one.place_source} says`],
    ["When", `${preciseTime(one.time)}, received ${preciseTime(one.received)}`],
    ["Heard by", `${one.monitors.replaceAll(" ", ", ")}; ${one.reports} ${one.reports === 1 ? "report" : "reports"}`],
  ];
  return h("div", { class: "case" },
    h("dl", {}, facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
    h("ol", { class: "steps" }, one.steps.map((step) => h("li", {}, h("span", { class: `state ${step.state}` }, step.state), ` ${timeOf(step.time)} by ${step.who}${step.note ? `: ${step.note}` : ""}`))),
    actions(one, moved));
}

function actions(one, moved) {
  const allowed = one.next.filter((state) => DO[state]);
  if (!allowed.length) return null;
  const note = h("input", { type: "text", name: "note", placeholder: "Reason", "aria-label": "Reason", autocomplete: "off" });
  const error = h("p", { class: "error", role: "alert" });
  const move = async (state) => {
    error.textContent = "";
    if (NEEDS_REASON.has(state) && !note.value.trim()) {
      error.textContent = `${DO[state]}: say why.`;
      note.focus();
      return;
    }
    try {
      moved(await ask(`/api/cases/${one.number}`, { state, who: "operator", note: note.value.trim() }));
    } catch (problem) {
      error.textContent = problem.message;
    }
  };
  return h("form", { class: "moves", onsubmit: (event) => event.preventDefault() },
    note, allowed.map((state) => h("button", { type: "button", onclick: () => move(state) }, DO[state])), error);
}
