// Keeps the curves of a page of the board up to date.
"use strict";

(() => {
  const EVERY_MS = 5000;
  const status = document.getElementById("live");
  let tag = "";

  async function refresh() {
    try {
      const address = `${location.pathname}/curves.json${location.search}`;
      const headers = tag ? { "If-None-Match": tag } : {};
      const answer = await fetch(address, { cache: "no-store", headers });
      if (answer.status === 200) {
        const known = tag !== "";
        tag = answer.headers.get("ETag");
        const detail = await answer.json();
        document.dispatchEvent(new CustomEvent("curves", { detail }));
        if (known) status.textContent = "The curves are newer than the rest; reload to see all.";
      } else if (answer.status !== 304) {
        throw new Error(answer.statusText);
      }
    } catch {
      status.textContent = "The board does not answer; this is what it showed last.";
    }
    setTimeout(refresh, EVERY_MS);
  }
  refresh();
})();
