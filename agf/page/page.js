// The interactive part of a report: one slider moves the time rule in every panel and picks the features shown.
// Titles are headings of the page, outside the panels, whose toolbars would cover them.
"use strict";
(function () {
  const data = JSON.parse(document.getElementById("agf-data").textContent);
  const byId = (id) => document.getElementById(id);
  const palette = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
  const base = { margin: { l: 60, r: 15, t: 35, b: 45 }, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    hovermode: "closest", legend: { orientation: "h", yanchor: "top", y: -0.24 } };
  const logTime = { type: "log", title: { text: "flow time t" }, exponentformat: "power", gridcolor: "#eee" };
  const show = (x) => (x === null ? "-" : Number(x).toPrecision(5));

  function rule(t) {
    if (t === null || !(t > 0)) return [];
    return [{ type: "line", x0: t, x1: t, yref: "paper", y0: 0, y1: 1, line: { color: "#888", width: 1.5, dash: "dot" } }];
  }
  function absent(id, text) {
    Plotly.newPlot(id, [], { ...base, height: 300, xaxis: { visible: false }, yaxis: { visible: false },
      annotations: [{ text: text, showarrow: false, x: 0.5, y: 0.5, xref: "paper", yref: "paper" }] },
      { responsive: true, displaylogo: false });
  }

  // loss: curves and staircases
  // Late drops may be a thousandth of the first: the axis is then log(loss - base + floor), as in the pictures.
  const lossTraces = [];
  const scaled = (y) => byId("log-loss").checked ? y.map((v) => Math.max(v - data.scale.base, -0.5 * data.scale.floor) + data.scale.floor) : y;
  const lossAxis = () => byId("log-loss").checked
    ? { type: "log", title: { text: data.scale.label }, gridcolor: "#eee", tickmode: "array", tickvals: scaled(data.scale.ticks), ticktext: data.scale.words, automargin: true }
    : { type: "linear", title: { text: "loss" }, gridcolor: "#eee", automargin: true };
  byId("log-loss").checked = data.scale !== null;
  byId("log-loss").disabled = data.scale === null;
  data.curves.forEach((c, i) => lossTraces.push({ x: c.times, y: scaled(c.losses), customdata: c.losses, name: c.name, mode: "lines",
    line: { color: palette[i % palette.length], width: 2 },
    hovertemplate: "t = %{x:.5g}<br>loss = %{customdata:.6g}<extra>" + c.name + "</extra>" }));
  data.staircases.forEach((s, i) => {
    const colour = palette[(i + data.curves.length) % palette.length];
    lossTraces.push({ x: s.times, y: scaled(s.levels), customdata: s.levels, name: s.name, mode: "lines", line: { shape: s.shape, dash: "dash", width: 2, color: colour },
      hovertemplate: "t = %{x:.5g}<br>level = %{customdata:.6g}<extra>" + s.name + "</extra>" });
    lossTraces.push({ x: s.drops.map((d) => d.half_time), y: scaled(s.drops.map((d) => d.middle)), customdata: s.drops.map((d) => d.middle), mode: "markers", name: s.name + ": half-drop",
      marker: { color: colour, size: 8, symbol: "diamond" }, text: s.drops.map((d) => d.label), showlegend: false,
      hovertemplate: "%{text}<br>predicted half-drop t = %{x:.6g}<extra></extra>" });
  });
  const lossLayout = { ...base, height: 400, xaxis: logTime,
    yaxis: lossAxis() };
  byId("log-loss").addEventListener("change", () => {
    Plotly.restyle("loss", { y: lossTraces.map((trace) => scaled(trace.customdata)) });
    Plotly.relayout("loss", { yaxis: lossAxis() });
  });
  if (lossTraces.length) Plotly.newPlot("loss", lossTraces, lossLayout, { responsive: true, displaylogo: false });
  else absent("loss", "no curve and no drop in these runs");

  // neuron norms of the first run that has snapshots
  const snaps = data.snapshots;
  document.querySelectorAll(".whose").forEach((place) => { place.innerHTML = snaps ? snaps.name : ""; });
  const normLayout = { ...base, height: 340, showlegend: false,
    xaxis: logTime, yaxis: { title: { text: "log10 norm" }, gridcolor: "#eee" } };
  if (snaps && snaps.log_norms.length) {
    Plotly.newPlot("norms", snaps.log_norms.map((values, i) => ({ x: snaps.times, y: values, mode: "lines", name: snaps.neurons[i],
      line: { width: 1.2 }, text: snaps.neurons[i], hovertemplate: "%{text}<br>t = %{x:.5g}<br>norm = 10^%{y:.3f}<extra></extra>" })),
      normLayout, { responsive: true, displaylogo: false });
  } else absent("norms", "these runs hold no norms over time");

  // features at the slider's time
  const select = byId("feature-name");
  const names = snaps ? Object.keys(snaps.features) : [];
  names.forEach((name) => select.add(new Option(name, name)));
  if (!names.length) { select.disabled = true; absent("features", "these runs hold no features over time"); }

  function drawFeature(k) {
    if (!names.length) return;
    const value = snaps.features[select.value].values[k];
    const layout = { ...base, height: 340 };
    if (Array.isArray(value) && Array.isArray(value[0])) {
      Plotly.react("features", [{ z: value, type: "heatmap", colorscale: "RdBu", zmid: 0 }], layout, { responsive: true, displaylogo: false });
    } else {
      const y = Array.isArray(value) ? value : [value];
      const range = snaps.features[select.value].range;
      const entries = snaps.features[select.value].entries;
      const few = y.length < 25;
      const ticks = few && snaps.features[select.value].named ? { tickvals: y.map((_, i) => i), ticktext: entries } : { dtick: few ? 1 : undefined };
      Plotly.react("features", [{ x: y.map((_, i) => i), y: y, type: "bar", marker: { color: palette[0] },
        customdata: y.map((_, i) => entries[i] || "entry " + i), hovertemplate: "%{customdata}: %{y:.5g}<extra></extra>" }], { ...layout, xaxis: ticks,
        yaxis: { range: range, gridcolor: "#eee" } }, { responsive: true, displaylogo: false });
    }
  }

  const slider = byId("time");
  const moments = snaps ? snaps.times : data.curves.length ? data.curves[0].times : [];
  const losses = snaps ? snaps.losses : data.curves.length ? data.curves[0].losses : [];
  slider.max = Math.max(moments.length - 1, 0);
  slider.disabled = moments.length === 0;
  function move() {
    const k = Number(slider.value);
    if (!moments.length) { byId("read-time").textContent = byId("read-loss").textContent = "-"; return; }
    byId("read-time").textContent = show(moments[k]);
    byId("read-loss").textContent = show(losses[k]);
    if (lossTraces.length) Plotly.relayout("loss", { shapes: rule(moments[k]) });
    if (snaps && snaps.log_norms.length) Plotly.relayout("norms", { shapes: rule(moments[k]) });
    drawFeature(k);
  }
  slider.addEventListener("input", move);
  select.addEventListener("change", () => drawFeature(Number(slider.value)));
  slider.value = slider.max;
  move();
  document.body.dataset.ready = "yes";
})();
