// New records at the top of the table, at most MAX_ROWS of them.
import { parse } from "./live.js";

const MAX_ROWS = 500;

export function tail(body, state, pause) {
  let source = null;
  let matched = 0;
  let read = 0;
  let skipped = false;

  const describe = (text) => {
    const hidden = skipped ? ", some records were skipped" : "";
    state.textContent = `${text}: ${matched.toLocaleString("en")} of ${read.toLocaleString("en")} records${hidden}`;
  };

  const open = () => {
    source = new EventSource(body.dataset.tail);
    source.addEventListener("begun", () => describe("Following"));
    source.addEventListener("records", (message) => {
      const event = JSON.parse(message.data);
      matched += event.matched;
      read += event.read;
      skipped ||= event.is_cut;
      // Rows need a table around them, or the parser drops their cells.
      const rows = parse(`<table><tbody>${event.rows}</tbody></table>`).querySelectorAll("tr");
      body.prepend(...rows);
      while (body.rows.length > MAX_ROWS) {
        body.lastElementChild.remove();
      }
      describe("Following");
    });
    source.addEventListener("failed", (message) => {
      source.close();
      state.textContent = JSON.parse(message.data);
    });
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CONNECTING) {
        state.textContent = "Reconnecting …";
      }
    });
  };

  pause.addEventListener("click", () => {
    if (source.readyState === EventSource.CLOSED) {
      pause.textContent = "Pause";
      open();
    } else {
      source.close();
      pause.textContent = "Continue";
      describe("Paused");
    }
  });
  window.addEventListener("pagehide", () => source.close());
  open();
}
