// Tabs as keyboards expect them: arrows choose, and only the chosen one is a stop for Tab.

export function tabs(list, chosen = () => {}) {
  const all = [...list.querySelectorAll('[role="tab"]')];
  const choose = (tab, focus) => {
    for (const one of all) {
      const is = one === tab;
      one.setAttribute("aria-selected", String(is));
      one.tabIndex = is ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !is;
    }
    if (focus) tab.focus();
    chosen(tab.id);
  };
  for (const one of all) one.addEventListener("click", () => choose(one));
  list.addEventListener("keydown", (event) => {
    const place = all.indexOf(document.activeElement);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (place < 0 || !step) return;
    event.preventDefault();
    choose(all[(place + step + all.length) % all.length], true);
  });
  return { choose: (id) => choose(all.find((one) => one.id === id)) };
}
