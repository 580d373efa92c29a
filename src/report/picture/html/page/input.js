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

