// A vehicle from above: an arrow that points where it drives. Who is over the limit is larger and has a ring, too: not
// everybody tells the colours apart.

export function carImage(colour, edge, ring) {
  const size = ring ? 60 : 44;
  const canvas = new OffscreenCanvas(size, size);
  const pen = canvas.getContext("2d");
  pen.translate(size / 2, size / 2);
  if (ring) {
    pen.beginPath();
    pen.arc(0, 0, size / 2 - 3, 0, 2 * Math.PI);
    pen.strokeStyle = colour;
    pen.lineWidth = 4;
    pen.stroke();
    pen.globalAlpha = 0.18;
    pen.fillStyle = colour;
    pen.fill();
    pen.globalAlpha = 1;
  }
  pen.beginPath();
  pen.moveTo(0, -17);
  pen.lineTo(11, 13);
  pen.quadraticCurveTo(0, 6, -11, 13);
  pen.closePath();
  pen.lineJoin = "round";
  pen.lineWidth = 5;
  pen.strokeStyle = edge;
  pen.stroke();
  pen.fillStyle = colour;
  pen.fill();
  return pen.getImageData(0, 0, size, size);
}
