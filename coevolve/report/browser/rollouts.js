// Shows the rollouts of chosen groups side by side, and where they differ.
"use strict";

(() => {
  const source = document.getElementById("rollout-data");
  const form = document.getElementById("filters");
  const place = document.getElementById("side-by-side");
  if (!source || !form) return;

  const { groups, pieces } = JSON.parse(source.textContent);
  const numbers = new Map(pieces.map((piece, number) => [piece, number]));
  let shows = 0;
  const ANY = "any";
  const MOST_GROUPS = 8; // groups that are shown at once
  const fields = form.elements;
  const outcome = ({ passed, of }) =>
    (passed === of ? "all passed" : passed ? "mixed" : "all failed");
  const values = {
    task: (group) => [group.task],
    skill: (group) => group.skills,
    version: (group) => [group.version],
    outcome: (group) => [outcome(group)],
  };

  function make(name, { text, className, ...attributes } = {}, ...children) {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children.filter(Boolean));
    return element;
  }

  function fill() {
    for (const [name, of] of Object.entries(values)) {
      const found = [...new Set(groups.flatMap(of))];
      found.sort((a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(b)));
      const options = [ANY, ...found].map((value) => make("option", { text: value, value }));
      fields[name].replaceChildren(...options);
    }
  }

  function list(chosen) {
    const fits = ([, group]) => Object.entries(values).every(([name, of]) =>
      fields[name].value === ANY || of(group).map(String).includes(fields[name].value));
    const options = [...groups.entries()].filter(fits).map(([number, group]) => {
      const told = `version ${group.version}, ${group.passed} of ${group.of}: `
        + (group.headline || group.task);
      const option = make("option", { text: told, value: number });
      option.selected = chosen === number;
      return option;
    });
    fields.groups.replaceChildren(...options);
    if (!fields.groups.selectedOptions.length && options.length) options[0].selected = true;
    show();
  }

  const length = (a, b) => {
    let at = 0;
    while (at < a.length && at < b.length && a[at] === b[at]) at += 1;
    return at;
  };

  function calls(rollout, first) {
    const same = length(rollout.actions.map(String), first.actions.map(String));
    const items = rollout.actions.map(([text, result, failed], at) => make("li", {},
      at === same && rollout !== first && make("mark", { text: "differs from here" }),
      make("code", { text }), failed ? " failed: " : " gave ", make("code", { text: result })));
    return items.length ? make("ol", {}, ...items) : make("p", { text: "No call." });
  }

  // Adjacent tokens of the environment are one element, each token of the policy has its own.
  function tokens(rollout, first) {
    const same = length(rollout.tokens, first.tokens);
    const parts = [];
    let given = null;
    rollout.tokens.forEach((number, at) => {
      const share = rollout.shares[at];
      if (at === same && rollout !== first) {
        parts.push(make("mark", { text: "differs" }));
        given = null;
      }
      if (share < 0) {
        if (!given) parts.push(given = make("span", { className: "given", text: "" }));
        given.textContent += pieces[number];
        return;
      }
      given = null;
      const token = make("span", { className: "token", text: pieces[number],
        title: `probability ${share / 10} %` });
      token.style.setProperty("--doubt", `${Math.round((1000 - share) * 0.05)}%`);
      parts.push(token);
    });
    return make("pre", { className: "tokens", tabindex: 0 }, ...parts);
  }

  function doubtful({ tokens, shares }) {
    const sampled = [...shares.keys()].filter((at) => shares[at] >= 0);
    const least = sampled.sort((a, b) => shares[a] - shares[b]).slice(0, 3);
    const told = least.map((at) => `${JSON.stringify(pieces[tokens[at]])} ${shares[at] / 10} %`);
    return make("p", { text: `Least probable: ${told.join(", ") || "no token"}` });
  }

  // Rollouts of a group that are the same token by token become one.
  function folded(group) {
    const found = new Map();
    for (const rollout of group.rollouts) {
      const key = JSON.stringify({ ...rollout, index: 0, shares: [], versions: [] });
      if (!found.has(key)) found.set(key, { ...rollout, indices: [] });
      found.get(key).indices.push(rollout.index);
    }
    return [...found.values()];
  }

  function card(group, rollout, first) {
    const same = rollout.indices.length > 1;
    const title = `Version ${group.version}, rollout${same ? "s" : ""} `
      + rollout.indices.join(", ") + (same ? " (the same)" : "");
    if (rollout.failed !== undefined) {
      return make("article", {}, make("h4", { text: title }),
        make("p", { text: `No reward; a part of the run failed: ${rollout.failed}` }));
    }
    const passed = rollout.passed === rollout.of ? "passed" : "failed";
    const author = rollout.author === "policy" ? "" : `, by the ${rollout.author}`;
    return make("article", {},
      make("h4", { text: `${title}: ${passed}${author}` }),
      make("p", { text: `Reward ${Number(rollout.reward.toPrecision(4))}, `
        + `${rollout.passed} of ${rollout.of} turns; ${rollout.ended}.` }),
      rollout.why && make("p", { text: rollout.why }),
      rollout.outcome && make("p", {}, "Outcome ", make("code", { text: rollout.outcome })),
      calls(rollout, first), doubtful(rollout), tokens(rollout, first));
  }

  function heading({ task, headline, turns, verdict, life }) {
    const asked = turns.map(([instruction, given]) => make("li", {}, `${instruction} `,
      ...given.flatMap((call) => [make("code", { text: call }), " "])));
    return make("div", {},
      make("h3", {}, make("code", { text: task }), ` ${headline} `,
        life && make("a", { text: "life of the task", href: life })),
      verdict && make("p", { text: verdict }),
      asked.length > 0 && make("details", {},
        make("summary", { text: "what it asks, and its reference" }), make("ol", {}, ...asked)));
  }

  // Asks the board for the rollouts of a group that the page does not hold.
  async function fetched(group) {
    if (group.rollouts) return;
    const address = `${location.pathname}/rollouts.json?group=${encodeURIComponent(group.id)}`;
    const answer = await fetch(address, { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const found = await answer.json();
    for (const rollout of found.rollouts) {
      rollout.tokens = rollout.tokens?.map((number) => {
        if (!numbers.has(found.pieces[number])) {
          numbers.set(found.pieces[number], pieces.push(found.pieces[number]) - 1);
        }
        return numbers.get(found.pieces[number]);
      });
    }
    group.rollouts = found.rollouts;
  }

  async function show() {
    const turn = ++shows;
    const chosen = [...fields.groups.selectedOptions].slice(0, MOST_GROUPS)
      .map((option) => groups[option.value]);
    try {
      await Promise.all(chosen.map(fetched));
    } catch {
      place.replaceChildren(make("p", { text: "The board does not answer." }));
      return;
    }
    if (turn !== shows) return; // another choice was made meanwhile
    const shown = chosen.map((group) => [group, folded(group)]);
    const first = shown.flatMap(([, rollouts]) => rollouts).find((each) => each.tokens);
    const tasks = new Map(chosen.map((group) => [group.task, group]));
    const cards = shown.flatMap(([group, rollouts]) =>
      rollouts.map((rollout) => card(group, rollout, first ?? rollout)));
    place.replaceChildren(...[...tasks.values()].map(heading),
      make("div", { className: "side", tabindex: 0, role: "group", "aria-label": "Rollouts" },
        ...(cards.length ? cards : [make("p", { text: "The journal has dropped them." })])));
  }

  // A link to the rollouts of a task chooses its groups.
  function follow() {
    const task = location.hash.match(/^#rollouts-(.+)$/)?.[1];
    if (!task) return;
    for (const name of Object.keys(values)) fields[name].value = ANY;
    fields.task.value = decodeURIComponent(task);
    list(-1);
    form.scrollIntoView();
    fields.groups.focus({ preventScroll: true });
  }

  fill();
  const mixed = groups.findLastIndex((group) => outcome(group) === "mixed");
  list(Math.max(mixed, 0));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) =>
    (event.target === fields.groups ? show() : list(-1)));
  addEventListener("hashchange", follow);
  follow();
})();
