// The latest events as they come to the office. Each opens its path.

import { byId, h, keyed } from "./dom.js";
import { MEANS, preciseTime, shortName } from "./format.js";

const SHOWN = 60;

export function drawEvents(town, choose) {
  const place = byId("view-events");
  if (!place.firstChild) {
    const only = h("label", { class: "only" }, h("input", { type: "checkbox", id: "only-speed" }), " only Speed");
    only.addEventListener("change", () => draw(place.town));
    place.append(only, h("ol", { class: "events", reversed: true }), h("p", { class: "soft empty" }, "No event: no vehicle is near a monitor."));
  }
  const draw = (now) => {
    const list = place.querySelector("ol");
    const some = now.events.filter((one) => !byId("only-speed").checked || one.subject === "Speed").slice(0, SHOWN);
    keyed(list, some, (one) => one.number, (one) => row(one, choose));
    place.querySelector(".empty").hidden = some.length > 0;
  };
  place.town = town;
  draw(town);
}

function row(one, choose) {
  const what = MEANS[one.verdict] === undefined ? one.verdict : one.subject === "Speed" ? `${Math.round(one.params.rate)} km/h` : "";
  return h("li", {}, h("button", { type: "button", class: `event ${one.verdict.replaceAll(" ", "-")}`, title: MEANS[one.verdict] ?? `in quarantine: ${one.verdict}`, onclick: () => choose(one) },
    h("time", {}, preciseTime(one.received)),
    h("span", { class: "subject" }, one.subject),
    h("span", { class: "who" }, one.params.license_no ?? shortName(one.vehicle)),
    h("span", { class: "what" }, what),
    h("span", { class: "by" }, one.monitor)));
}
