// Builds the page: a graph at a time, its plans side by side; or one plan of a graph next to that of another.

// `before` is the number of the graph to compare with, if it is not negative.
function showGraph(index, before = -1) {
  const graph = graphAt(index);
  const comparison = before >= 0 && before !== index ? new Comparison(graphAt(before), graph) : null;
  const plans = comparison ? [...comparison.before.plans, ...graph.plans] : graph.plans;
  // When graphs are compared, the last plans are shown at first, which are those of lastuse.
  const isShown = (plan) => !comparison || plan === plan.graph.plans[plan.graph.plans.length - 1];
  const hidden = new Set(plans.map((_, number) => number).filter((number) => !isShown(plans[number])));
  Object.assign(state, { index, graph, comparison, plans, hidden, pin: -1, chosen: -1, pointed: -1, step: -1 });
  element("title").textContent = (GRAPHS.length === 1 && DATA.title) || graph.label;
  element("title").title = graph.label;
  element("facts").textContent =
    `${formatNumber(graph.nodes)} steps, ${formatNumber(graph.planned.length)} tensors in buffers. ` +
    "A rectangle is a tensor, from its definition to its last use.";
  filterGraphs(element("graph-filter").value);
  element("other").value = String(comparison ? before : -1);
  element("show-comparison").hidden = !comparison;
  element("tooltip").hidden = true;
  showPlans();
  showLegend();
  setFilter([]);
  clearSearch();
  fitAll();
  showDetails(-1);
  refreshTable();
}

// The first view: the changes between two captures, or otherwise the largest graph.
function showFirst() {
  if (DATA.compared) showGraph(...[1, 0].map((given) => GRAPHS.findIndex(({ raw }) => raw.given === given)));
  else showGraph(0);
}

function changeLayout() {
  const isBelow = element("plans").classList.toggle("below");
  element("layout").textContent = isBelow ? "Side by side" : "Stack";
}

function changeTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  recolour();
}

function recolour() {
  element("theme").textContent = isDark() ? "Light" : "Dark";
  readColours();
  if (state.graph) repaint();
}

function changeCallOuts() {
  state.callsOut = !state.callsOut;
  element("call-outs").setAttribute("aria-pressed", String(state.callsOut));
  repaint();
}

function listen() {
  document.addEventListener("keydown", onKey);
  const clicks = {
    "zoom-in": () => zoom(1 / ZOOM, 1 / ZOOM), "zoom-out": () => zoom(ZOOM, ZOOM), fit: fitAll,
    peak: showPeak, "peak-before": () => nextPeak(-1), "peak-after": () => nextPeak(1),
    "show-table": () => showTable("peak"), "show-comparison": () => showTable("comparison"), "call-outs": changeCallOuts,
    png: savePng, svg: saveSvg, link: copyLink, layout: changeLayout, theme: changeTheme,
  };
  for (const [id, action] of Object.entries(clicks)) element(id).addEventListener("click", () => state.graph && action());
  element("search").addEventListener("input", (event) => search(event.target.value));
  element("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
  });
  element("graph").addEventListener("change", (event) => showGraph(Number(event.target.value)));
  element("other").addEventListener("change", (event) => showGraph(state.index, Number(event.target.value)));
  element("graph-filter").addEventListener("input", (event) => filterGraphs(event.target.value));
  element("graph-filter").addEventListener("keydown", (event) => {
    if (event.key === "Enter") showFiltered();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  addEventListener("hashchange", () => { if (location.hash !== written) readAddress(); });
}

recolour();
offerGraphs();
if (GRAPHS.length) {
  listen();
  readAddress();
} else {
  element("title").textContent = "No graphs";
}
