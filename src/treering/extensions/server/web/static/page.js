// Enhancements only: every page works without them.
"use strict";

function offerCopying(root) {
  for (const button of root.querySelectorAll("button[data-copies]")) {
    button.hidden = !navigator.clipboard;
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copies]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copies).textContent;
  const name = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = name; }, 1500);
});

function watch() {
  const place = document.querySelector("[data-events]");
  if (!place) return;
  const state = document.getElementById("live-state");
  const stream = new EventSource(place.dataset.events);
  stream.addEventListener("open", () => { state.textContent = "Connected: new lines appear automatically."; });
  stream.addEventListener("error", () => { state.textContent = "Not connected. Trying again."; });
  for (const name of ["stored", "recalled"]) {
    const list = document.getElementById(name);
    stream.addEventListener(name, (event) => {
      const line = document.createElement("template");
      line.innerHTML = event.data; // made and escaped by the server
      list.querySelector(".nothing")?.remove();
      list.prepend(line.content);
      while (list.children.length > 60) list.lastElementChild.remove();
    });
  }
}

for (const name of ["htmx:after:swap", "htmx:afterSwap"]) {
  document.addEventListener(name, () => offerCopying(document));
}
offerCopying(document);
watch();
