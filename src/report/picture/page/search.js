// Finding tensors by name.

function search(text) {
  const { graph } = state;
  const wanted = text.trim().toLowerCase();
  const matches = (id) => graph.name(id).toLowerCase().includes(wanted);
  // A view is found where its memory is.
  const isFound = (id) => matches(id) || (graph.looksAt.get(id) || []).some(matches);
  state.hits = wanted ? graph.planned.filter(isFound) : [];
  state.hit = -1;
  tellHits(wanted);
  repaint();
}

function tellHits(wanted) {
  const { hits, hit } = state;
  const count = hits.length;
  const text = !wanted ? "" : count === 0 ? "none" : hit < 0 ? `${count} found` : `${hit + 1} of ${count}`;
  element("hits").textContent = text;
}

function nextHit(by) {
  const { hits } = state;
  if (!hits.length) return;
  state.hit = state.hit < 0 ? (by > 0 ? 0 : hits.length - 1) : (state.hit + by + hits.length) % hits.length;
  tellHits("hits");
  choose(hits[state.hit]);
}

function clearSearch() {
  element("search").value = "";
  search("");
}

