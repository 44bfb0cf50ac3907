// Keeps the list of runs up to date.
"use strict";

(() => {
  const EVERY_MS = 5000;
  const status = document.getElementById("live");
  const body = document.getElementById("runs");

  async function refresh() {
    try {
      const answer = await fetch("runs.json", { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.statusText);
      for (const [name, ...cells] of await answer.json()) {
        const row = body.querySelector(`[data-run="${CSS.escape(name)}"]`);
        if (!row) { location.reload(); return; }
        [...row.children].slice(2).forEach((cell, at) => {
          if (cell.className === "sparks") cell.innerHTML = cells[at]; // markup of the board's own
          else if (cell.textContent !== cells[at]) cell.textContent = cells[at];
        });
      }
      status.textContent = "";
    } catch {
      status.textContent = "The board does not answer; these are its last numbers.";
    }
    setTimeout(refresh, EVERY_MS);
  }
  setTimeout(refresh, EVERY_MS);
})();
