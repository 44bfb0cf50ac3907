// Opens the folded sections that a link, a print or the reader asks for.
"use strict";

(() => {
  const menus = [...document.querySelectorAll("nav details")];

  // Opens what holds the target of the address, and the section whose title it is.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)))
      ?? (/^#(task|signal)-/.test(location.hash) ? document.getElementById("life")
        : location.hash.startsWith("#rollouts-") ? document.getElementById("rollouts") : null);
    if (!target) return;
    for (let each = target; each; each = each.parentElement) {
      if (each.tagName === "DETAILS") each.open = true;
    }
    target.scrollIntoView();
  }

  function unfold() {
    for (const each of document.querySelectorAll("main details")) each.open = true;
  }

  const button = document.getElementById("unfold");
  button.hidden = false;
  button.addEventListener("click", unfold);
  addEventListener("beforeprint", unfold);
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    for (const each of menus) if (link || !each.contains(event.target)) each.open = false;
    if (link && link.hash === location.hash) reveal(); // the address does not change then
  });
  reveal();
})();
