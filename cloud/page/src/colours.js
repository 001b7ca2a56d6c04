// A colour for each limit: from slow and dark to fast and bright, so that it is an order for everybody, whatever colours
// they tell apart. Areas are tinted with it; they lie on each other, so tints are mixed here and drawn opaque.

const SCALE = [
  [10, [68, 24, 122]],
  [20, [66, 52, 150]],
  [30, [48, 92, 168]],
  [40, [34, 130, 160]],
  [50, [30, 158, 137]],
  [70, [110, 190, 82]],
  [90, [203, 208, 50]],
  [130, [252, 190, 44]],
];

export function colourOf(limit) {
  if (limit === null || limit === undefined) return [136, 136, 136];
  const after = SCALE.findIndex(([value]) => value >= limit);
  if (after === 0) return SCALE[0][1];
  if (after < 0) return SCALE[SCALE.length - 1][1];
  const [[low, a], [high, b]] = [SCALE[after - 1], SCALE[after]];
  return mix(a, b, (limit - low) / (high - low));
}

export const mix = (a, b, part) => a.map((value, place) => Math.round(value + (b[place] - value) * part));

export const css = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;

export const tint = (limit, ground, part) => css(mix(ground, colourOf(limit), part));

// The colours of the theme, from the style sheet: one place says what they are.
export function theme() {
  const found = getComputedStyle(document.documentElement);
  const value = (name) => found.getPropertyValue(name).trim();
  const names = ["ground", "road", "casing", "ink", "soft", "accent", "over", "car", "car-edge", "label", "label-halo", "heard", "left", "office", "line"];
  return Object.fromEntries(names.map((name) => [name, value(`--${name}`)]));
}

export const numbers = (colour) => colour.match(/\d+/g).map(Number);

export const dark = matchMedia("(prefers-color-scheme: dark)");
