// The keyboard: all keys work from the first moment, wherever the focus is, but in fields to type in.

const ZOOM = 1.25, STRIDE = 0.15, FAR = 4;

const KEYS = {
  "+": () => zoom(1 / ZOOM, 1 / ZOOM),
  "=": () => zoom(1 / ZOOM, 1 / ZOOM),
  "-": () => zoom(ZOOM, ZOOM),
  0: fitAll,
  "/": () => element("search").focus(),
  k: showPeak,
  "[": () => nextPeak(-1),
  "]": () => nextPeak(1),
  n: () => stepTo(1),
  p: () => stepTo(-1),
  t: () => showTable("peak"),
  c: () => showTable("comparison"),
  o: changeCallOuts,
  l: copyLink,
  g: () => (element("graphs").hidden ? null : element("graph-filter").focus()),
  "?": () => { element("keys").open = !element("keys").open; },
};

// Moves of the view, by a part of it.
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !state.graph) return;
  if (event.key === "Escape") return leave(event.target);
  if (event.target.matches("input, select, textarea")) return;
  const action = actionOf(event);
  if (!action) return;
  event.preventDefault();
  action();
}

function actionOf({ key, shiftKey, target }) {
  // Lists and tables scroll by arrows, and buttons are pressed by Enter.
  const isInText = target.closest("aside, #tables, details");
  if (ARROWS[key] && !isInText) return () => move(...ARROWS[key].map((by) => by * STRIDE * (shiftKey ? FAR : 1)));
  if (key === "Enter" && !target.matches("button, summary, a") && state.pointed >= 0) return () => choose(state.pointed);
  if (/^[1-9]$/.test(key)) return () => togglePlan(Number(key) - 1);
  return Object.hasOwn(KEYS, key) ? KEYS[key] : null;
}

// Clears selection, search and filter; inside a field, first returns the focus to the page.
function leave(target) {
  if (target.matches("input, select")) target.blur();
  unpin();
  clearSearch();
  setFilter([]);
  choose(-1);
}

// Points at the next tensor in time that is bright, with a tooltip.
function stepTo(by) {
  const painter = activePainter();
  if (!painter) return;
  const { plan, graph } = painter;
  const ids = graph.planned.filter((id) => plan.spanOf(id) >= 0 && (!graph.passing || graph.passing[id] === 1));
  if (!ids.length) return;
  const from = ids.indexOf(state.pointed >= 0 ? state.pointed : state.chosen);
  const id = ids[from < 0 ? (by > 0 ? 0 : ids.length - 1) : (from + by + ids.length) % ids.length];
  reveal(id);
  painter.frame.fit(...painter.size);
  const box = painter.canvas.getBoundingClientRect();
  const place = painter.place(state.view, plan.spanOf(id), plan.visibleUntil[plan.spanOf(id)]);
  const [x, y] = place ? [place.left + place.width / 2, place.top + place.height / 2] : [0, 0];
  pointAt(painter, id, plan.start[plan.spanOf(id)], box.left + x, box.top + y);
  announce(summary(graph, id));
}

