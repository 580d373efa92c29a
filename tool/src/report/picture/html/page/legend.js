// The legend. Its entries for tensors filter them.

// The entries of the data that occur, as { key, drawing, text }; those without a key cannot be clicked.
function legendEntries() {
  const keys = new Set([""]);
  for (const plan of state.plans) {
    plan.tensor.forEach((tensor, span) => {
      keys.add(`kind ${plan.graph.kind(tensor)}`).add(`way ${plan.sharing[span]}`);
      if (plan.retained[span]) keys.add("retained");
    });
  }
  const entries = DATA.legend.map(([key, drawing, text]) => ({ key, drawing, text })).filter(({ key }) => keys.has(key));
  return entries.map((entry) => (entry.key === `way ${SHARING.KEPT}` ? { ...entry, key: "" } : entry));
}

function showLegend() {
  const items = legendEntries().map(({ key, drawing, text }) => {
    const entry = key ? button("", () => toggleFilter(key), { "data-key": key, "aria-pressed": "false", title: "Show only these" }) : node("span");
    // Only fixed shapes and colours, no text of the graph.
    entry.innerHTML = `<svg viewBox="0 0 18 12" aria-hidden="true">${drawing}</svg>`;
    entry.append(text);
    return node("li", {}, entry);
  });
  const all = button("Show all", () => setFilter([]), { id: "show-all", class: "link" });
  all.hidden = true;
  element("legend").replaceChildren(...items, node("li", {}, all));
}

// Highlighting by search, and by clicks on the legend.

function search(text) {
  const { graph } = state;
  state.query = text;
  const query = parseQuery(text);
  state.hits = query.isEmpty ? [] : graph.planned.filter((id) => query.matches(graph, id));
  state.hit = -1;
  element("search").toggleAttribute("aria-invalid", query.error !== "");
  showHits(query.isEmpty, query.error);
  repaint();
}

function showHits(isEmpty, error = "") {
  const { hits, hit } = state;
  const count = hits.length;
  const text = isEmpty ? "" : count === 0 ? "none" : hit < 0 ? `${count} found` : `${hit + 1} of ${count}`;
  element("hits").textContent = error || text;
}

function nextHit(by) {
  const { hits } = state;
  if (!hits.length) return;
  state.hit = state.hit < 0 ? (by > 0 ? 0 : hits.length - 1) : (state.hit + by + hits.length) % hits.length;
  showHits(false);
  choose(hits[state.hit]);
}

function clearSearch() {
  element("search").value = "";
  search("");
}

// The filter of an entry of the legend, by its key.
function passesEntry(graph, key, id) {
  const [what, number] = key.split(" ");
  if (what === "kind") return graph.kind(id) === Number(number);
  const spans = graph.plans.flatMap((plan) => (plan.spansOf.get(id) || []).map((span) => [plan, span]));
  if (what === "retained") return spans.some(([plan, span]) => plan.retained[span] === 1);
  return spans.some(([plan, span]) => plan.sharing[span] === Number(number));
}

// A tensor passes if it is of one of the chosen kinds, and shares memory in one of the chosen ways.
function applyFilter(graph) {
  const keys = [...state.filter];
  const kinds = keys.filter((key) => key.startsWith("kind"));
  const ways = keys.filter((key) => !key.startsWith("kind"));
  const passes = (chosen, id) => chosen.length === 0 || chosen.some((key) => passesEntry(graph, key, id));
  graph.passing = keys.length === 0 ? null
    : Uint8Array.from({ length: graph.count }, (_, id) => (passes(kinds, id) && passes(ways, id) ? 1 : 0));
}

function setFilter(keys) {
  state.filter = new Set(keys);
  for (const graph of new Set(state.plans.map((plan) => plan.graph))) applyFilter(graph);
  for (const entry of element("legend").querySelectorAll("button[data-key]")) {
    entry.setAttribute("aria-pressed", String(state.filter.has(entry.dataset.key)));
  }
  element("show-all").hidden = state.filter.size === 0;
  refreshTable();
  repaint();
}

function toggleFilter(key) {
  const keys = new Set(state.filter);
  if (!keys.delete(key)) keys.add(key);
  setFilter(keys);
}
