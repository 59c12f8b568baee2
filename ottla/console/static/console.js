// The behaviour of all pages. Without scripts every page works, but does not follow the cluster.
import { bindKeys, nextTheme } from "./keys.js";
import { follow } from "./live.js";
import { tail } from "./tail.js";

const content = document.getElementById("content");
const records = document.getElementById("records");
const help = document.getElementById("help");

if (content.dataset.stream) {
  follow(content, document.getElementById("live-state"));
}
if (records?.dataset.tail) {
  tail(records, document.getElementById("tail-state"), document.getElementById("tail-pause"));
}
document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("help-button").addEventListener("click", () => help.showModal());
bindKeys(content, help);
