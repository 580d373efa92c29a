// Builds the page: a graph at a time, its plans beside one another.

function showGraph(index) {
  const entry = GRAPHS[index];
  // A graph is built when it is first shown.
  entry.graph = entry.graph || new Graph(entry.raw);
  Object.assign(state, { graph: entry.graph, frame: new Frame(entry.graph), chosen: -1, pointed: -1, step: -1 });
  const { graph } = state;
  element("title").textContent = (GRAPHS.length === 1 && DATA.title) || graph.label;
  element("facts").textContent =
    `${formatNumber(graph.nodes)} steps, ${formatNumber(graph.planned.length)} tensors in buffers. ` +
    "A rectangle is a tensor, from its definition to its last use.";
  watching.disconnect();
  state.painters = [];
  element("plans").replaceChildren(...graph.plans.map((plan, number) => section(plan, number)));
  element("layout").hidden = graph.plans.length < 2;
  clearSearch();
  showLegend();
  showDetails(-1);
  fitAll();
}

const watching = new ResizeObserver((entries) => {
  for (const { target } of entries) state.painters.find((painter) => painter.canvas === target)?.resize();
  // At once: a canvas that was resized is empty.
  if (state.graph) paintNow();
});

function section(plan, number) {
  const { graph, frame } = state;
  const first = graph.plans[0];
  const largest = Math.max(...graph.plans.map((other) => other.size), 1);
  const heading = node("h2", {}, plan.label, node("span", { class: "bytes" }, formatBytes(plan.size)));
  if (number > 0) {
    const change = formatChange(first.size, plan.size);
    heading.append(node("span", { class: plan.size < first.size ? "less" : "bytes" }, change));
  }
  const bar = node("i");
  bar.style.width = `${(plan.size / largest) * 100}%`;
  const canvas = node("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map of memory over time", "aria-label": ariaLabel(plan) });
  const painter = new Painter(canvas, plan, frame);
  state.painters.push(painter);
  watching.observe(canvas);
  listenTo(canvas, painter);
  const room = node("div", { class: "room" }, canvas);
  room.style.minHeight = `${frame.leastHeight()}px`;
  return node("section", { class: "plan", "aria-label": `Plan of ${plan.label}` }, heading,
    node("p", { class: "note" }, goodness(plan)), node("div", { class: "bar", "aria-hidden": "true" }, bar), room);
}

function goodness(plan) {
  if (!plan.size) return "the graph needs no memory";
  const bound = plan.bound();
  if (bound === plan.size) return "at the lower bound: no plan with these live ranges is smaller";
  if (plan.buffers.every((buffer) => buffer.optimal)) {
    return `proven to be the smallest with these live ranges; the lower bound is ${formatBytes(bound)}`;
  }
  return `${formatBytes(plan.size - bound)} above the lower bound`;
}

function ariaLabel(plan) {
  const peaks = plan.buffers.filter((buffer) => buffer.peaks.length)
    .map((buffer) => `peak of ${buffer.name}: ${formatBytes(buffer.bound)} at step ${buffer.peaks[0][0]}`);
  return [`${plan.label}: ${formatBytes(plan.size)}`, ...peaks,
    "arrow keys move, plus and minus zoom, n and p go from tensor to tensor, Enter follows one"].join("; ");
}

function showLegend() {
  const { graph } = state;
  const spans = graph.plans.map((plan) => [...plan.tensor.keys()].map((span) => [plan, span])).flat();
  const kinds = new Set(spans.map(([plan, span]) => graph.kind(plan.tensor[span])));
  const ways = new Set(spans.map(([plan, span]) => plan.sharing[span]));
  const entries = KINDS.map((kind, index) => [kinds.has(index), `<rect width="18" height="12" rx="2" fill="${kind.colour}"/>`, kind.name]);
  const box = '<rect width="18" height="12" rx="2" fill="#56b4e9"/>';
  const stripes = (colour) => `<path d="M2 12L10 0M8 12L16 0" stroke="${colour}" stroke-width="1.6"/>`;
  entries.push([ways.has(SHARING.IN_PLACE), `${box}<path d="M3 0V12" stroke="#fff" stroke-dasharray="2 2"/><path d="M3 1l5 5l-5 5z" fill="#fff"/>`, "computed in place"]);
  entries.push([ways.has(SHARING.INSIDE), box + stripes("#fff"), "computed inside a later result"]);
  entries.push([ways.has(SHARING.KEPT), stripes("currentColor"), "reserved for that result"]);
  const isRetained = spans.some(([plan, span]) => plan.isRetained(graph, span));
  const dots = [3, 9, 15].map((x) => `<circle cx="${x}" cy="6" r="1.4" fill="#fff"/>`).join("");
  entries.push([isRetained, box + dots, "retained for the program"]);
  entries.push([true, '<rect y="2" width="18" height="10" fill="var(--live)"/>', "live bytes"]);
  entries.push([true, '<path d="M0 6H18" stroke="currentColor" stroke-width="1.6" stroke-dasharray="5 3"/>', "lower bound"]);
  entries.push([true, '<path d="M0 6H18" stroke="var(--less)" stroke-width="1.8"/>', "buffer size"]);
  entries.push([true, '<path d="M9 0V12" stroke="var(--peak)" stroke-width="1.8" stroke-dasharray="3 2"/>', "peak"]);
  element("legend").replaceChildren(...entries.filter(([isThere]) => isThere).map(([, drawing, text]) => {
    const item = node("li");
    // Only fixed shapes and colours, no text of the graph.
    item.innerHTML = `<svg viewBox="0 0 18 12" aria-hidden="true">${drawing}</svg>`;
    item.append(text);
    return item;
  }));
}

function offerGraphs() {
  element("graphs").hidden = GRAPHS.length < 2;
  const options = GRAPHS.map(({ raw }, index) => {
    const size = Math.max(...raw.plans.map((plan) => plan.size), 0);
    return node("option", { value: String(index) }, `${raw.label} (${formatBytes(size)})`);
  });
  element("graph").replaceChildren(...options);
}

recolour();
offerGraphs();
listen();
if (GRAPHS.length) showGraph(0);
else element("title").textContent = "No graphs";
