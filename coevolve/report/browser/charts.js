// Draws the charts whose specifications the page holds, each when it comes near to the window.
"use strict";

const chartConfig = {
  view: { stroke: null }, font: "system-ui, sans-serif",
  axis: { labelColor: "var(--faint)", titleColor: "var(--faint)", titleFontWeight: "normal",
    domainColor: "var(--line)", tickColor: "var(--line)", gridColor: "var(--line)",
    labelFontSize: 11 },
  legend: { labelColor: "var(--ink)", symbolOpacity: 1 },
  text: { fill: "var(--ink)", fontSize: 11 },
};

// The interpreter of expressions needs no code made from text, which the page's policy forbids.
const chartOptions = {
  ast: true, renderer: "svg", actions: false, defaultStyle: false, logLevel: 1,
};

(() => {
  const MARGIN = "400px 0px";
  const dark = matchMedia("screen and (prefers-color-scheme: dark)");

  async function draw(chart) {
    const spec = JSON.parse(chart.dataset.spec);
    await vegaEmbed(chart, {
      width: "container", background: null, autosize: { type: "fit-x", contains: "padding" },
      ...spec, config: chartConfig,
    }, { mode: "vega-lite", ...chartOptions, tooltip: { theme: dark.matches ? "dark" : "light" } });
    chart.querySelector("svg").setAttribute("aria-hidden", "true");
  }

  const nearness = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    nearness.unobserve(entry.target);
    draw(entry.target);
  }), { rootMargin: MARGIN });
  document.querySelectorAll(".chart").forEach((chart) => nearness.observe(chart));
})();
