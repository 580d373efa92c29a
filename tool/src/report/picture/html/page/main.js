// The list of graphs, with a filter, and the list of what to compare with.

// The words with which all labels begin are left out: a list is narrow, and its names differ where they end.
const COMMON = (() => {
  const [first, ...others] = GRAPHS.map(({ raw }) => raw.label.split(" "));
  const length = first.findIndex((word, at) => at + 1 === first.length || others.some((words) => words[at] !== word));
  return others.length && length > 2 ? first.slice(0, length).join(" ").length + 1 : 0;
})();

function graphLabel({ raw }, index) {
  const size = Math.max(...raw.plans.map((plan) => plan.size), 0);
  return `${COMMON ? "… " : ""}${shortened(raw.label.slice(COMMON), 90)} (${formatBytes(size)})${GRAPHS.length > 9 ? `, ${index + 1} of ${GRAPHS.length}` : ""}`;
}

function offerGraphs() {
  element("graphs").hidden = GRAPHS.length < 2;
  filterGraphs("");
  const others = GRAPHS.map((entry, index) => node("option", { value: String(index) }, graphLabel(entry, index)));
  element("other").replaceChildren(node("option", { value: "-1" }, "nothing"), ...others);
}

// Offers the graphs whose labels have all words. The graph that is shown stays selected, but is not offered if its
// label lacks a word.
function filterGraphs(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const hasWords = ({ raw }) => words.every((word) => raw.label.toLowerCase().includes(word));
  let count = 0;
  const options = GRAPHS.map((entry, index) => {
    const isOffered = hasWords(entry);
    count += isOffered ? 1 : 0;
    if (!isOffered && index !== state.index) return null;
    return node("option", { value: String(index), ...(isOffered ? {} : { hidden: "" }) }, graphLabel(entry, index));
  });
  element("graph").replaceChildren(...options.filter(Boolean));
  element("graph").value = String(state.index);
  element("graph-count").textContent = words.length ? `${count} of ${GRAPHS.length}` : "";
}

// Shows the first graph that the filter offers.
function showFiltered() {
  const first = element("graph").querySelector("option:not([hidden])");
  if (first) showGraph(Number(first.value));
}

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
