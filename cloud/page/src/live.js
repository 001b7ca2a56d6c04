// The stream of news. When it breaks, the page says so kindly and tries again until it is there: a browser does that by
// itself unless it was refused, and it does not know of an office that is silent.

import { byId } from "./dom.js";

const SILENT = 6_000; // ms; the office says something every second
const AGAIN = 2_000;

export function listen(tell) {
  let source;
  let heard = 0;
  let timer;

  const connect = () => {
    source = new EventSource("/api/live");
    heard = performance.now();
    source.onmessage = (message) => {
      heard = performance.now();
      notice("");
      tell(JSON.parse(message.data));
    };
    source.onerror = () => {
      lost();
      if (source.readyState === EventSource.CLOSED) again();
    };
  };
  const again = () => {
    source.close();
    clearTimeout(timer);
    timer = setTimeout(connect, AGAIN);
    heard = performance.now() + AGAIN;
  };
  const lost = () => notice("The office does not answer. What you see is as it was; the page goes on by itself when it is back.");
  setInterval(() => {
    if (performance.now() - heard > SILENT) {
      lost();
      again();
    }
  }, 1_000);
  connect();
}

function notice(text) {
  const place = byId("notice");
  if (place.textContent === text) return;
  place.textContent = text;
  place.hidden = !text;
  if (text) byId("mode").textContent = "Away";
  document.body.classList.toggle("lost", Boolean(text));
}
