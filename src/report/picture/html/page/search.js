// Finds tensors by name.

function search(text) {
  const { graph } = state;
  const part = text.trim().toLowerCase();
  const matches = (id) => graph.name(id).toLowerCase().includes(part);
  // A view is found with the owner of its memory.
  const isFound = (id) => matches(id) || (graph.viewsOf.get(id) || []).some(matches);
  state.hits = part ? graph.planned.filter(isFound) : [];
  state.hit = -1;
  showHits(part);
  repaint();
}

function showHits(part) {
  const { hits, hit } = state;
  const count = hits.length;
  const text = !part ? "" : count === 0 ? "none" : hit < 0 ? `${count} found` : `${hit + 1} of ${count}`;
  element("hits").textContent = text;
}

function nextHit(by) {
  const { hits } = state;
  if (!hits.length) return;
  state.hit = state.hit < 0 ? (by > 0 ? 0 : hits.length - 1) : (state.hit + by + hits.length) % hits.length;
  showHits("hits");
  choose(hits[state.hit]);
}

function clearSearch() {
  element("search").value = "";
  search("");
}

