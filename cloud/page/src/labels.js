// Names of roads as pictures that lie along them: letters of the map's own would have to be fetched from somewhere.

const FONT = "500 22px system-ui, sans-serif";

// One label for each name, on the longest part of that road, from west to east: so they are never upside down.
export function labelsOf(network) {
  const best = new Map();
  for (const one of network.features) {
    if (one.properties.kind !== "road" || !one.properties.name) continue;
    const length = lengthOf(one.geometry.coordinates);
    const known = best.get(one.properties.name);
    if (!known || known.length < length) best.set(one.properties.name, { length, one });
  }
  const features = [...best.values()].map(({ one }) => ({ type: "Feature", properties: { name: one.properties.name }, geometry: { type: "LineString", coordinates: eastward(one.geometry.coordinates) } }));
  return { type: "FeatureCollection", features };
}

export function drawLabels(gl, network, colours) {
  for (const { properties } of labelsOf(network).features) {
    const [name, image] = [`road-${properties.name}`, picture(properties.name, colours)];
    if (gl.hasImage(name)) gl.updateImage(name, image);
    else gl.addImage(name, image, { pixelRatio: 2 });
  }
}

function picture(text, colours) {
  const pen = new OffscreenCanvas(1, 1).getContext("2d");
  pen.font = FONT;
  const canvas = new OffscreenCanvas(Math.ceil(pen.measureText(text).width) + 12, 34);
  const ink = canvas.getContext("2d");
  ink.font = FONT;
  ink.textBaseline = "middle";
  ink.lineJoin = "round";
  ink.lineWidth = 6;
  ink.strokeStyle = colours["label-halo"];
  ink.strokeText(text, 6, 17);
  ink.fillStyle = colours.label;
  ink.fillText(text, 6, 17);
  return ink.getImageData(0, 0, canvas.width, canvas.height);
}

const eastward = (places) => (places[0][0] <= places[places.length - 1][0] ? places : places.toReversed());

function lengthOf(places) {
  let sum = 0;
  for (let one = 1; one < places.length; one++) sum += Math.hypot(places[one][0] - places[one - 1][0], places[one][1] - places[one - 1][1]);
  return sum;
}
