// Mouse and touch.

function listenTo(canvas, painter) {
  const fingers = new Map();
  let moved = 0;
  canvas.addEventListener("wheel", (event) => onWheel(event, painter), { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.clientX, event.clientY]);
    moved = fingers.size > 1 ? Infinity : 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return point(event, painter);
    moved += drag(event, fingers, painter);
    if (moved > 4) canvas.classList.add("moving");
  });
  const lift = (event) => {
    fingers.delete(event.pointerId);
    canvas.classList.remove("moving");
  };
  canvas.addEventListener("pointerup", (event) => {
    const isClick = fingers.has(event.pointerId) && moved <= 4;
    lift(event);
    if (isClick) click(event, painter);
  });
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => pointAt(painter, -1, -1, 0, 0));
  canvas.addEventListener("dblclick", (event) => zoom(0.5, 0.5, ...parts(event, painter)));
  canvas.addEventListener("blur", () => pointAt(painter, -1, -1, 0, 0));
}

// The position of an event in the map, as fractions of its width and height.
function parts(event, { canvas, frame }) {
  const box = canvas.getBoundingClientRect();
  const within = (number) => Math.min(Math.max(number, 0), 1);
  return [within((event.clientX - box.left - frame.left) / frame.width), within((event.clientY - box.top - frame.top) / frame.height)];
}

function onWheel(event, painter) {
  event.preventDefault();
  const pixels = (event.deltaY || event.deltaX) * (event.deltaMode === 1 ? 30 : 1);
  const by = Math.exp(Math.min(Math.max(pixels, -200), 200) * (event.ctrlKey ? 0.01 : 0.002));
  zoom(event.altKey ? 1 : by, event.shiftKey ? 1 : by, ...parts(event, painter));
}

// One finger moves, two zoom. Returns the distance in pixels.
function drag(event, fingers, { frame }) {
  const before = [...fingers.values()].map((place) => [...place]);
  const was = fingers.get(event.pointerId);
  const [dx, dy] = [event.clientX - was[0], event.clientY - was[1]];
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
  if (fingers.size === 1) {
    move(-dx / frame.width, -dy / frame.height);
  } else {
    const apart = (places) => Math.hypot(places[0][0] - places[1][0], places[0][1] - places[1][1]) || 1;
    const by = apart(before) / apart([...fingers.values()]);
    zoom(by, by);
    move(-dx / frame.width / 2, -dy / frame.height / 2);
  }
  return Math.hypot(dx, dy);
}

// The tensor under the pointer, or whose call-out is; -1 if there is none.
function tensorUnder(event, painter) {
  const box = painter.canvas.getBoundingClientRect();
  const place = [event.clientX - box.left, event.clientY - box.top];
  painter.frame.fit(...painter.size);
  const calledOut = painter.calledOutAt(...place);
  const span = calledOut >= 0 ? calledOut : painter.spanAt(state.view, ...place);
  return span < 0 ? -1 : painter.plan.tensor[span];
}

function point(event, painter) {
  const box = painter.canvas.getBoundingClientRect();
  const tensor = tensorUnder(event, painter);
  const step = Math.floor(painter.frame.step(state.view, event.clientX - box.left));
  pointAt(painter, tensor, step, event.clientX, event.clientY);
}

// Points at a tensor of a painter's graph.
function pointAt(painter, id, step, x, y) {
  if (id < 0 && state.pointed < 0 && step === state.step && element("tooltip").hidden) return;
  state.pointed = idFrom(painter.graph, id);
  state.step = step;
  showTooltip(painter.plan, id, x, y);
  repaint();
}

function click(event, painter) {
  chooseIn(painter.graph, tensorUnder(event, painter));
}

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
  s: () => (element("layout").hidden ? null : changeLayout()),
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
  // What a tooltip is about moves; those that open one open it anew.
  element("tooltip").hidden = true;
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

// Clears selection, tooltip, search and filter; inside a field, first returns the focus to the page.
function leave(target) {
  if (target.matches("input, select")) target.blur();
  unpin();
  clearSearch();
  setFilter([]);
  [state.pointed, state.step] = [-1, -1];
  element("tooltip").hidden = true;
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
