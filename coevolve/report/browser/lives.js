// Shows the life of the task or signal that a link names.
"use strict";

(() => {
  const LIFE = /^(task|signal)-/;
  const lives = JSON.parse(document.getElementById("lives").textContent);
  const place = document.getElementById("life");
  const served = document.getElementById("live") !== null;

  async function lifeAt(anchor) {
    if (!served) return lives[anchor];
    const address = `${location.pathname}/life.json?at=${encodeURIComponent(anchor)}`;
    const answer = await fetch(address, { cache: "no-store" });
    if (answer.ok) return answer.json();
    return undefined;
  }

  function missing(anchor) {
    const told = document.createElement("p");
    const name = decodeURIComponent(anchor.replace(LIFE, ""));
    told.append("This page has no life of ", document.createElement("code"),
      ". `coevolve board` and `coevolve attach lineage` show it.");
    told.querySelector("code").textContent = name;
    return told;
  }

  // A link that this file cannot follow is no link.
  function unlink(part) {
    if (served) return;
    for (const link of part.querySelectorAll("a[href^='#task-'], a[href^='#signal-']")) {
      if (!Object.hasOwn(lives, link.hash.slice(1))) link.replaceWith(...link.childNodes);
    }
  }

  async function show() {
    const anchor = location.hash.slice(1);
    if (!LIFE.test(anchor)) return;
    const life = await lifeAt(anchor).catch(() => undefined);
    if (anchor !== location.hash.slice(1)) return; // another one was chosen meanwhile
    if (life) place.innerHTML = life; // markup that the report wrote, with all texts escaped
    else place.replaceChildren(missing(anchor));
    unlink(place);
    const title = place.querySelector("h3") ?? place;
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
    place.scrollIntoView();
  }

  unlink(document);
  addEventListener("hashchange", show);
  show();
})();
