// Replaces the content of a page by each event of its stream. The server has escaped all text, and
// the policy of the page allows no script inside it.

export function parse(html) {
  return new DOMParser().parseFromString(html, "text/html").body;
}

export function follow(content, state) {
  const source = new EventSource(content.dataset.stream);
  let waiting = null;
  let isPressed = false;

  const show = (html) => {
    waiting = null;
    const before = cells(content);
    const focused = document.activeElement;
    const id = content.contains(focused) ? focused.id : "";
    const row = content.querySelector("tr.at")?.dataset.row;
    const notes = content.querySelectorAll(":scope > .note[role=status].good");
    content.replaceChildren(...notes, ...parse(html).childNodes);
    for (const cell of content.querySelectorAll("[data-k]")) {
      const text = before.get(cell.dataset.k);
      if (text !== undefined && text !== cell.textContent) {
        cell.classList.add("changed");
      }
    }
    if (row !== undefined) {
      const same = [...content.querySelectorAll("tr[data-row]")].find((each) => each.dataset.row === row);
      same?.classList.add("at");
    }
    if (id) {
      document.getElementById(id)?.focus({ preventScroll: true });
    }
  };

  // A reader who types, clicks, or has opened or selected something, keeps it until that has ended.
  const isBusy = () =>
    isPressed ||
    content.querySelector("input:focus, select:focus, textarea:focus, details[open]") !== null ||
    (document.getSelection()?.isCollapsed === false &&
      content.contains(document.getSelection().anchorNode));

  const showWhenIdle = () => {
    if (waiting !== null && !isBusy()) {
      show(waiting);
    }
  };

  source.addEventListener("content", (message) => {
    setState(state, "live", true);
    waiting = JSON.parse(message.data);
    showWhenIdle();
  });
  source.addEventListener("missing", (message) => {
    // The next content, if there is one again, replaces this note and what is below it.
    waiting = null;
    setState(state, "gone", false);
    content.querySelector(":scope > .note.missing")?.remove();
    const note = document.createElement("p");
    note.className = "note warn missing";
    note.textContent = JSON.parse(message.data);
    content.prepend(note);
  });
  source.addEventListener("error", () => setState(state, "reconnecting", false));
  source.addEventListener("open", () => setState(state, "live", true));
  for (const name of ["focusout", "toggle"]) {
    content.addEventListener(name, () => setTimeout(showWhenIdle, 0), true);
  }
  document.addEventListener("selectionchange", showWhenIdle);
  document.addEventListener("pointerdown", () => { isPressed = true; });
  for (const name of ["pointerup", "pointercancel"]) {
    document.addEventListener(name, () => {
      isPressed = false;
      setTimeout(showWhenIdle, 0);
    });
  }
  // Browsers allow few connections per site: a page that is left gives its one back at once.
  window.addEventListener("pagehide", () => source.close());
}

function cells(content) {
  const found = new Map();
  for (const cell of content.querySelectorAll("[data-k]")) {
    found.set(cell.dataset.k, cell.textContent);
  }
  return found;
}

function setState(state, text, isLive) {
  state.textContent = text;
  state.classList.toggle("off", !isLive);
}
