// Elements, made in one expression: h("button", { type: "button", onclick: open }, "Open").

export const byId = (id) => document.getElementById(id);

export function h(name, values = {}, ...children) {
  return fill(document.createElement(name), values, children);
}

export function svg(name, values = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), values, children);
}

function fill(element, values, children) {
  for (const [key, value] of Object.entries(values)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

// Rows of a list by their keys: what is still there stays the same element, and keeps the focus that it may have.
export function keyed(parent, items, keyOf, make) {
  const old = new Map([...parent.children].map((one) => [one.dataset.key, one]));
  const wanted = items.map((item) => {
    const key = String(keyOf(item));
    const version = JSON.stringify(item);
    const known = old.get(key);
    if (known && known.version === version) return known;
    const made = make(item);
    made.dataset.key = key;
    made.version = version;
    if (known && known.contains(document.activeElement)) {
      requestAnimationFrame(() => made.querySelector("button, a")?.focus({ preventScroll: true }));
    }
    return made;
  });
  const same = wanted.length === parent.children.length && wanted.every((one, place) => one === parent.children[place]);
  if (same) return;
  const keep = new Set(wanted);
  for (const one of [...parent.children]) if (!keep.has(one)) one.remove();
  wanted.forEach((one, place) => {
    if (parent.children[place] !== one) parent.insertBefore(one, parent.children[place] ?? null);
  });
}
