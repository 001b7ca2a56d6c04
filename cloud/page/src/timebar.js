// The time: now, or some moment that the log still has. The slider goes there, the arrows step from event to event, and
// Live comes back.

import { ask } from "./ask.js";
import { byId, h } from "./dom.js";
import { timeOf } from "./format.js";

const KEYS = { ArrowLeft: -1_000, ArrowDown: -1_000, ArrowRight: 1_000, ArrowUp: 1_000, PageDown: -10_000, PageUp: 10_000 }; // ms
const PLAY = 500; // ms between two pictures, which are as far apart as that

export class Timebar {
  // `show(then)` is given what was then, or null for now.
  constructor(show) {
    this.show = show;
    this.then = null;
    this.now = 0;
    this.first = 0;
    const button = (label, text, click, id) => h("button", { type: "button", id, "aria-label": label, title: label, onclick: click }, text);
    this.slider = h("input", { type: "range", id: "slider", min: 0, max: 1, step: 1, value: 1, "aria-label": "Time" });
    this.slider.addEventListener("input", () => this.jump(Number(this.slider.value)));
    this.slider.addEventListener("keydown", (event) => {
      if (!KEYS[event.key]) return;
      event.preventDefault();
      this.jump(Math.min(this.now, Math.max(this.first, (this.then ?? this.now) + KEYS[event.key])));
    });
    this.text = h("output", { for: "slider", id: "then" });
    this.playing = button("Play from here", "▶", () => (this.timer ? this.stop() : this.play()), "play");
    this.live = button("Back to now", "Live", () => this.back(), "live");
    byId("timebar").addEventListener("submit", (event) => event.preventDefault());
    byId("timebar").append(
      button("One event back", "‹", () => this.step("previous"), "previous"), this.slider,
      button("One event on", "›", () => this.step("next"), "next"), this.playing, this.text, this.live);
    this.draw();
  }

  get past() {
    return this.then !== null;
  }

  // The office's clock has gone on.
  tick(now, first) {
    this.now = now;
    this.first = first ?? this.first;
    this.slider.min = Math.min(this.first, now - 1_000);
    this.slider.max = now;
    if (!this.past) this.slider.value = now;
    else this.slider.value = this.then;
    this.draw();
  }

  // Where somebody wants to be: what they had clicked before is over.
  jump(time) {
    this.stop();
    this.stepping = null;
    this.go(time);
  }

  // `event` is the last one of that millisecond to be shown, where it is not all of them.
  go(time, event) {
    return (this.going = this.load(time, event));
  }

  async load(time, event) {
    this.then = time;
    this.slider.value = time;
    this.draw();
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    try {
      const which = event === undefined ? "" : `&event=${event}`;
      const found = await ask(`/api/at?time=${Math.round(time)}${which}`, undefined, { signal: asking.signal });
      if (this.asking !== asking || !this.past) return;
      this.found = found;
      this.show(found);
    } catch (problem) {
      if (problem.name !== "AbortError") this.text.textContent = "not to be had";
    }
  }

  // One after another, however fast somebody clicks, each from where the one before has come to.
  step(which) {
    this.stop();
    const steps = (this.stepping ??= { done: Promise.resolve() });
    steps.done = steps.done.then(() => this.toEvent(which, steps));
  }

  async toEvent(which, steps) {
    await this.going;
    if (this.stepping !== steps) return;
    if (!this.past) {
      if (which === "next") return;
      await this.go(this.now);
      if (this.stepping !== steps) return;
    }
    const beside = this.found?.[which];
    if (beside) await this.go(beside.time, beside.event);
  }

  play() {
    if (!this.past) return;
    this.timer = setInterval(() => {
      if (this.then + PLAY >= this.now) this.back();
      else this.go(this.then + PLAY);
    }, PLAY);
    this.draw();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.draw();
  }

  back() {
    this.stop();
    this.stepping = null;
    this.asking?.abort();
    this.then = null;
    this.found = null;
    this.tick(this.now);
    this.show(null);
  }

  draw() {
    const text = this.past ? timeOf(this.then) : "now";
    this.text.textContent = this.past ? `${timeOf(this.then)}, ${Math.max(0, Math.round((this.now - this.then) / 1000))} s ago` : "now";
    this.slider.setAttribute("aria-valuetext", text);
    this.playing.textContent = this.timer ? "❚❚" : "▶";
    this.playing.disabled = !this.past;
    byId("next").disabled = !this.past;
    this.live.disabled = !this.past;
  }
}
