// The dialog that sets a limit: Enter sets, Escape leaves it as it is. Below are those that were set, to be ended.

import { ask } from "./ask.js";
import { byId, h } from "./dom.js";
import { timeOf } from "./format.js";

const USUAL = [20, 30, 50, 70];

export function askLimit(town, area, monitor) {
  const dialog = byId("limit");
  const known = town.areas.find((one) => one.name === area);
  const others = town.monitors.filter((one) => one.area === area).map((one) => one.name);
  const value = h("input", { type: "number", name: "value", min: 5, max: 130, step: 1, required: true, value: known?.limit ?? 50, inputmode: "numeric" });
  const hours = h("input", { type: "text", name: "hours", placeholder: "always", autocomplete: "off", "aria-describedby": "limit-hours" });
  const error = h("p", { class: "error", role: "alert" });
  const where = others.length === 1 ? "the sign of" : "the signs of";
  const set = h("button", { class: "primary" }, "Set limit");

  const submit = async (event) => {
    event.preventDefault();
    error.textContent = "";
    set.disabled = true;
    try {
      const asked = { area, value: Number(value.value), who: "operator" };
      if (hours.value.trim()) asked.hours = hours.value.trim();
      const { holds } = await ask("/api/limits", asked);
      if (asked.hours || holds.limit === asked.value) dialog.close();
      else { // one with hours comes before it
        error.textContent = `${asked.value} is set, but now ${holds.limit} holds: ${holds.source}. End that one below if it shall not.`;
        await list();
      }
    } catch (problem) {
      error.textContent = problem.message;
    } finally {
      set.disabled = false;
    }
  };

  const rules = h("ul", { class: "rules", "aria-label": "Limits that were set" });
  const list = async () => {
    const found = (await ask("/api/limits")).rules.filter((one) => one.area === area && one.until === null && one.since > 0);
    rules.replaceChildren(...found.reverse().map((one) => h("li", { "data-since": one.since },
      h("span", {}, `${one.value} km/h, ${one.hours ?? "always"}, since ${timeOf(one.since)} by ${one.source}`),
      h("button", { type: "button", onclick: () => end(one) }, "End"))));
  };
  const end = async (one) => {
    error.textContent = "";
    try {
      await ask("/api/limits", { area, since: one.since, who: "operator" }, { method: "DELETE" });
      await list();
    } catch (problem) {
      error.textContent = problem.message;
    }
  };
  list().catch((problem) => { error.textContent = problem.message; });

  dialog.replaceChildren(
    h("form", { method: "dialog", onsubmit: submit },
      h("h2", { id: "limit-title" }, `Limit in ${known?.title ?? area}`),
      h("p", { class: "soft" }, monitor ? `Monitor ${monitor} watches it. ` : "", `It changes ${where} ${others.join(" and ") || "no monitor"}, and what leaves the roadside there.`),
      h("div", { class: "usual" }, USUAL.map((one) => h("button", { type: "button", onclick: () => { value.value = one; value.focus(); } }, String(one)))),
      h("label", {}, "km/h", value),
      h("label", {}, "Only at", hours, h("small", { id: "limit-hours" }, "for example Mo-Fr 07:30-16:30")),
      error,
      rules,
      h("p", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), set)));
  dialog.showModal();
  value.focus();
  value.select();
}
