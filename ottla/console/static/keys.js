// Keys: see the dialog in page.html.
const THEMES = ["auto", "light", "dark"];
const SEQUENCE_MS = 1500;

export function nextTheme() {
  const now = document.documentElement.dataset.theme ?? "auto";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "auto") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem("theme");
  } else {
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
  }
}

export function bindKeys(content, help) {
  let prefix_ms = -Infinity;

  const rows = () => [...content.querySelectorAll("tbody tr")];

  const move = (step) => {
    const all = rows();
    const at = all.findIndex((row) => row.classList.contains("at"));
    const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))];
    all[at]?.classList.remove("at");
    if (next) {
      next.classList.add("at");
      next.scrollIntoView({ block: "nearest" });
      next.querySelector("a, summary")?.focus({ preventScroll: true });
    }
  };

  const follow = (selector) => document.querySelector(selector)?.click();

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (target.matches("input, textarea, select")) {
      if (event.key === "Escape") {
        target.blur();
      }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) {
      return;
    }
    const isSequence = event.timeStamp - prefix_ms < SEQUENCE_MS;
    prefix_ms = -Infinity;
    if (isSequence) {
      const entry = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (entry) {
        event.preventDefault();
        entry.click();
        return;
      }
    }
    const actions = {
      g: () => { prefix_ms = event.timeStamp; },
      "/": () => { const field = document.getElementById("filter"); field?.focus(); field?.select(); },
      j: () => move(1),
      k: () => move(-1),
      n: () => follow("a[rel=next]"),
      p: () => follow("a[rel=prev]"),
      t: nextTheme,
      "?": () => help.showModal(),
    };
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
}
