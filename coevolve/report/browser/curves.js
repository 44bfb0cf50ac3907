// Draws the metrics as curves: smoothing, zoom, the values under the pointer, runs overlaid.
"use strict";

(() => {
  const MOST_POINTS = 400; // points of a drawn line; more are merged
  const HEIGHT = 150;
  const COLOURS = 7;
  const DASHES = [[1, 0], [7, 3], [2, 2], [9, 3, 2, 3]];
  const MARGIN = "300px 0px"; // charts this near to the window are drawn, all others are not

  const source = document.getElementById("curves");
  const form = document.getElementById("controls");
  if (!source || !form) return;

  const { runs, metrics } = JSON.parse(source.textContent);
  const settings = { smoothing: 0, from: -Infinity, to: Infinity, shown: new Set(runs.keys()) };
  const charts = new Map(); // element -> chart, of those that are drawn

  const colour = (run) => `var(--c${run % COLOURS})`;
  const short = (value) => {
    if (value === 0) return "0";
    const size = Math.abs(value);
    return size >= 1e6 || size < 1e-3 ? value.toExponential(2)
      : Number(value.toPrecision(4)).toLocaleString("en");
  };

  // Exponential mean, without the pull of the first value: the weights are divided by their sum.
  function smoothed(values, weight) {
    if (!weight) return values;
    let sum = 0, total = 0;
    return values.map((value) => {
      sum = weight * sum + (1 - weight) * value;
      total = weight * total + (1 - weight);
      return sum / total;
    });
  }

  function rowsOf(name) {
    const rows = [];
    metrics[name].forEach((columns, run) => {
      if (!columns || !settings.shown.has(run)) return;
      const [steps, means, lows = means, highs = means] = columns;
      const smooth = smoothed(means, settings.smoothing);
      const inside = [...steps.keys()].filter(
        (i) => steps[i] >= settings.from && steps[i] <= settings.to);
      const width = Math.ceil(inside.length / MOST_POINTS) || 1;
      for (let at = 0; at < inside.length; at += width) {
        const places = inside.slice(at, at + width);
        const mean = (of) => places.reduce((sum, i) => sum + of[i], 0) / places.length;
        rows.push({
          run, x: steps[places.at(-1)], y: mean(smooth), raw: mean(means),
          low: Math.min(...places.map((i) => lows[i])),
          high: Math.max(...places.map((i) => highs[i])),
        });
      }
    });
    return rows;
  }

  const byRun = {
    field: "run", type: "nominal", legend: null,
    scale: { domain: [...runs.keys()], range: runs.map((_, run) => colour(run)) },
  };
  const number = (field) => ({ field, type: "quantitative", title: null });
  const scaled = { scale: { zero: false, nice: true }, axis: { tickCount: 4, format: "~g" } };
  const line = (field, mark) => ({
    data: { name: "points" }, mark: { type: "line", ...mark },
    encoding: { y: { ...number(field), ...scaled }, color: byRun,
      strokeDash: { ...byRun, scale: { domain: byRun.scale.domain,
        range: runs.map((_, run) => DASHES[Math.floor(run / COLOURS) % DASHES.length]) } } },
  });

  const SPEC = {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width: 300, height: HEIGHT, padding: 2, background: null,
    autosize: { type: "fit", contains: "padding", resize: true },
    datasets: { points: [], cursor: [] },
    encoding: { x: { ...number("x"), scale: { zero: false, nice: false },
      axis: { tickCount: 5, tickMinStep: 1, grid: false, format: "~s" } } },
    layer: [
      { data: { name: "points" }, mark: { type: "area", opacity: 0.18 },
        encoding: { y: number("low"), y2: { field: "high" }, color: byRun } },
      line("raw", { strokeWidth: 1, opacity: 0.3 }),
      { ...line("y", { strokeWidth: 2 }),
        params: [{ name: "zoom", select: { type: "interval", encodings: ["x"],
          mark: { fill: "var(--faint)", fillOpacity: 0.2 } } }] },
      { data: { name: "cursor" }, mark: { type: "rule", color: "var(--faint)" } },
      { data: { name: "cursor" }, mark: { type: "point", filled: true, size: 45, opacity: 1 },
        encoding: { y: number("y"), color: byRun } },
    ],
    config: chartConfig,
  };
  let compiled; // SPEC in Vega's own terms, which are quicker to draw from

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.name = figure.dataset.metric;
      this.plot = figure.querySelector(".plot");
      this.output = figure.querySelector("output");
      this.told = this.output.textContent;
      this.ready = this.draw();
    }

    async draw() {
      const { view, vgSpec, finalize } = await vegaEmbed(this.plot, compiled ?? SPEC, {
        mode: compiled ? "vega" : "vega-lite", ...chartOptions, tooltip: false,
      });
      compiled ??= vgSpec;
      this.view = view;
      this.finalize = finalize;
      this.plot.querySelector("svg").setAttribute("aria-hidden", "true");
      this.show();
      view.addSignalListener("zoom", (_, zoom) => { this.zoomed = zoom.x; });
    }

    show() {
      if (!this.view) return;
      this.rows = rowsOf(this.name);
      this.steps = [...new Set(this.rows.map((row) => row.x))].sort((a, b) => a - b);
      this.view.width(this.plot.clientWidth || 300);
      this.view.data("points", this.rows);
      this.point(null);
    }

    // Marks the step nearest to `x` and says its values; null marks none.
    point(x) {
      const step = x === null ? undefined : this.steps.reduce(
        (best, each) => (Math.abs(each - x) < Math.abs(best - x) ? each : best), this.steps[0]);
      const rows = step === undefined ? [] : this.rows.filter((row) => row.x === step);
      this.step = step;
      this.view.data("cursor", rows).runAsync();
      const values = rows.map((row) => (runs.length > 1 ? `${runs[row.run]} ` : "") + short(row.y)
        + (row.low < row.high ? ` (${short(row.low)} to ${short(row.high)})` : ""));
      this.output.textContent = rows.length ? `step ${step}: ${values.join(", ")}` : this.told;
    }

    under(event) {
      const [left] = this.view.origin();
      const box = this.plot.getBoundingClientRect();
      this.point(this.view.scale("x").invert(event.clientX - box.left - left));
    }

    along(by) {
      const at = this.steps.indexOf(this.step);
      const next = at < 0 ? (by > 0 ? 0 : this.steps.length - 1) : at + by;
      if (next >= 0 && next < this.steps.length) this.point(this.steps[next]);
    }

    async end() {
      await this.ready;
      this.finalize();
      this.plot.replaceChildren();
    }
  }

  const shown = () => charts.forEach((chart) => chart.show());
  let waiting = 0;
  const soon = () => { waiting ||= requestAnimationFrame(() => { waiting = 0; shown(); }); };

  const nearness = new IntersectionObserver((entries) => entries.forEach((entry) => {
    const figure = entry.target;
    if (entry.isIntersecting && !charts.has(figure)) charts.set(figure, new Chart(figure));
    if (!entry.isIntersecting && charts.has(figure)) {
      charts.get(figure).end();
      charts.delete(figure);
    }
  }), { rootMargin: MARGIN });

  const figures = [...document.querySelectorAll("figure.curve")];
  for (const figure of figures) {
    const plot = figure.querySelector(".plot");
    const chart = () => (charts.get(figure)?.view ? charts.get(figure) : undefined);
    plot.addEventListener("pointermove", (event) => chart()?.under(event));
    plot.addEventListener("pointerleave", () => chart()?.point(null));
    plot.addEventListener("blur", () => chart()?.point(null));
    plot.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by && chart()) { chart().along(by); event.preventDefault(); }
    });
    nearness.observe(figure);
  }

  const fields = form.elements;
  function zoom(from, to) {
    settings.from = from;
    settings.to = to;
    fields.from.value = Number.isFinite(from) ? from : "";
    fields.to.value = Number.isFinite(to) ? to : "";
    soon();
  }
  addEventListener("pointerup", () => charts.forEach((chart) => {
    const range = chart.zoomed;
    chart.zoomed = undefined;
    if (!range || range[0] === range[1]) return;
    chart.view.signal("zoom_x", [0, 0]);
    zoom(Math.ceil(Math.min(...range)), Math.floor(Math.max(...range)));
  }));

  const whole = () => zoom(-Infinity, Infinity);
  fields.whole.addEventListener("click", whole);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    settings.smoothing = Number(fields.smoothing.value);
    fields.smoothed.value = fields.smoothing.value;
    settings.shown = new Set([...form.querySelectorAll("[name=run]:checked")].map((box) =>
      Number(box.value)));
    if (event.target === fields.from || event.target === fields.to) {
      settings.from = fields.from.value === "" ? -Infinity : Number(fields.from.value);
      settings.to = fields.to.value === "" ? Infinity : Number(fields.to.value);
    }
    const wanted = fields.find.value.trim().toLowerCase();
    for (const figure of figures) {
      figure.hidden = !figure.textContent.toLowerCase().includes(wanted);
      if (wanted && !figure.hidden) figure.closest("details").open = true;
    }
    soon();
  });
  addEventListener("resize", soon);
  document.addEventListener("curves", ({ detail }) => {
    for (const name of Object.keys(metrics)) metrics[name] = detail.metrics[name] ?? metrics[name];
    soon();
  });
})();
