// The areas with their limits, beside the map: what the colours mean, and another way to set a limit.

import { colourOf, css } from "./colours.js";
import { byId, h, keyed } from "./dom.js";

export function drawLegend(town, chooseArea) {
  const place = byId("legend");
  if (!place.firstChild) {
    place.append(
      h("ul", { class: "areas" }),
      h("p", { class: "marks" }, h("span", { class: "mark car" }), "vehicle that a monitor hears"),
      h("p", { class: "marks" }, h("span", { class: "mark over" }), "over the limit"),
    );
  }
  const areas = town.areas.map(({ name, title, limit, source }) => ({ name, title, limit, source }));
  keyed(place.firstChild, areas, (one) => one.name, (one) =>
    h("li", {}, h("button", { type: "button", title: `Set the limit in ${one.title}`, "data-area": one.name, onclick: () => chooseArea(one.name) },
      h("span", { class: "swatch", style: `background: ${css(colourOf(one.limit))}` }),
      h("span", {}, one.title), h("strong", {}, `${one.limit}`), h("span", { class: "unit" }, "km/h"))));
}
