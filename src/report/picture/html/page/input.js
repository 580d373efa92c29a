// Mouse, touch and keyboard.

const ZOOM = 1.25, STRIDE = 0.15, FAR = 4;

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
  canvas.addEventListener("keydown", (event) => onCanvasKey(event, painter));
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

function spanUnder(event, painter) {
  const box = painter.canvas.getBoundingClientRect();
  painter.frame.fit(...painter.size);
  return painter.spanAt(state.view, event.clientX - box.left, event.clientY - box.top);
}

function point(event, painter) {
  const span = spanUnder(event, painter);
  const box = painter.canvas.getBoundingClientRect();
  const step = Math.floor(painter.frame.step(state.view, event.clientX - box.left));
  pointAt(painter, span < 0 ? -1 : painter.plan.tensor[span], step, event.clientX, event.clientY);
}

function pointAt(painter, id, step, x, y) {
  if (id === state.pointed && id < 0 && step === state.step) return;
  state.pointed = id;
  state.step = step;
  showTooltip(painter.plan, id, x, y);
  repaint();
}

function click(event, painter) {
  const span = spanUnder(event, painter);
  choose(span < 0 ? -1 : painter.plan.tensor[span]);
}

function onCanvasKey(event, painter) {
  const far = event.shiftKey ? FAR : 1;
  const keys = {
    ArrowLeft: () => move(-STRIDE * far, 0),
    ArrowRight: () => move(STRIDE * far, 0),
    ArrowUp: () => move(0, -STRIDE * far),
    ArrowDown: () => move(0, STRIDE * far),
    n: () => stepTo(painter, 1),
    p: () => stepTo(painter, -1),
    Enter: () => choose(state.pointed),
  };
  if (keys[event.key] && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    keys[event.key]();
  }
}

// Points at the next tensor in time, with a tooltip.
function stepTo(painter, by) {
  const ids = state.graph.planned.filter((id) => painter.plan.spanOf(id) >= 0);
  if (!ids.length) return;
  const from = ids.indexOf(state.pointed >= 0 ? state.pointed : state.chosen);
  const id = ids[from < 0 ? (by > 0 ? 0 : ids.length - 1) : (from + by + ids.length) % ids.length];
  reveal(id);
  painter.frame.fit(...painter.size);
  const box = painter.canvas.getBoundingClientRect();
  const place = painter.place(state.view, painter.plan.spanOf(id), painter.plan.visibleUntil[painter.plan.spanOf(id)]);
  const [x, y] = place ? [place.left + place.width / 2, place.top + place.height / 2] : [0, 0];
  pointAt(painter, id, painter.plan.start[painter.plan.spanOf(id)], box.left + x, box.top + y);
  announce(summary(id));
}

function onKey(event) {
  const isTyping = event.target.matches("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    clearSearch();
    choose(-1);
    return;
  }
  if (isTyping) return;
  const keys = {
    "+": () => zoom(1 / ZOOM, 1 / ZOOM),
    "=": () => zoom(1 / ZOOM, 1 / ZOOM),
    "-": () => zoom(ZOOM, ZOOM),
    0: fitAll,
    "/": () => element("search").focus(),
  };
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
}

function listen() {
  document.addEventListener("keydown", onKey);
  element("zoom-in").addEventListener("click", () => zoom(1 / ZOOM, 1 / ZOOM));
  element("zoom-out").addEventListener("click", () => zoom(ZOOM, ZOOM));
  element("fit").addEventListener("click", fitAll);
  element("search").addEventListener("input", (event) => search(event.target.value));
  element("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1);
  });
  element("layout").addEventListener("click", changeLayout);
  element("theme").addEventListener("click", changeTheme);
  element("graph").addEventListener("change", (event) => showGraph(Number(event.target.value)));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
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
  repaint();
}

