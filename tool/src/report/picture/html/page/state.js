// The view, the selected tensor, and the highlighting.

// A tensor that is revealed has this fraction of the view: 1 / CONTEXT.
const CONTEXT = 8;
// A tensor with a smaller share of the view is hard to see.
const MIN_SHARE = 0.02;
// The number of steps shown around a peak.
const PEAK_STEPS = 40;

const GRAPHS = DATA.graphs.map((raw) => ({ raw, graph: null }));
const state = {
  // The number of the graph in GRAPHS; what it is compared with, if anything.
  index: -1, graph: null, comparison: null,
  // All plans that can be shown, those that are not, and the painters of the others.
  plans: [], hidden: new Set(), frame: null, painters: [],
  view: { x0: 0, x1: 1, y0: 0, y1: 1 },
  // The step whose live tensors are listed; -1: the peak of each plan.
  pin: -1,
  // The filter of the legend; lets all pass if it is empty.
  filter: new Set(),
  query: "", chosen: -1, pointed: -1, step: -1, hits: [], hit: -1, callsOut: true, waits: false,
};

const element = (id) => document.getElementById(id);

// Builds a graph when it is first needed.
function graphAt(index) {
  const entry = GRAPHS[index];
  entry.graph = entry.graph || new Graph(JSON.parse(LINES[index + 1]));
  return entry.graph;
}

// Paints in the next frame, once however often it is called.
function repaint() {
  rememberView();
  if (state.waits) return;
  state.waits = true;
  requestAnimationFrame(paintNow);
}

function paintNow() {
  state.waits = false;
  const marks = marksOf();
  for (const painter of state.painters) painter.paint(state.view, marksIn(painter.graph, marks));
}

// The highlighted tensors: the selected one with its sources and uses, or those that were found and pass the filter.
function marksOf() {
  const { graph, chosen, hits, pointed, step } = state;
  const sources = chosen < 0 ? [] : graph.sources(chosen).map((source) => source.id);
  const readers = chosen < 0 ? [] : graph.readers(chosen);
  return { chosen, pointed, step, sources, readers, found: hits };
}

// These in the numbers of a graph's own tensors, and whether a tensor of it is bright.
function marksIn(graph, marks) {
  const own = (id) => idIn(graph, id);
  const { chosen, pointed, step } = marks;
  const [sources, readers, found] = [marks.sources, marks.readers, marks.found].map((ids) => ids.map(own));
  const bright = new Set(chosen < 0 ? found : [own(chosen), ...sources, ...readers]);
  const changed = state.comparison && state.comparison.isShown ? state.comparison.changedIn(graph) : null;
  const passing = chosen < 0 ? graph.passing : null;
  const isBright = (id) => (bright.size ? bright.has(id) : !changed || changed.has(id)) && (!passing || passing[id] === 1);
  return { chosen: own(chosen), pointed: own(pointed), step, sources, readers, found, isPlain: !bright.size && !passing && !changed, isBright };
}

// The number that a tensor of the shown graph has in another; -1 if it has none there.
function idIn(graph, id) {
  return id < 0 || graph === state.graph ? id : state.comparison.toBefore[id];
}

// The other way round.
function idFrom(graph, id) {
  return id < 0 || graph === state.graph ? id : state.comparison.toAfter[id];
}

function setView(x0, x1, y0, y1) {
  const { steps } = state.frame;
  const width = Math.min(Math.max(x1 - x0, Math.min(4, steps)), steps);
  const height = Math.min(Math.max(y1 - y0, 1e-6), 1);
  x0 = Math.min(Math.max(x0, 0), steps - width);
  y0 = Math.min(Math.max(y0, 0), 1 - height);
  state.view = { x0, x1: x0 + width, y0, y1: y0 + height };
  repaint();
}

function fitAll() {
  setView(0, state.frame.steps, 0, 1);
}

// Zooms around a point of the view, given as fractions of its width and height. Factors below 1 zoom in.
function zoom(byX, byY, atX = 0.5, atY = 0.5) {
  const { x0, x1, y0, y1 } = state.view;
  const [width, height] = [x1 - x0, y1 - y0];
  const [left, top] = [x0 + width * atX * (1 - byX), y0 + height * atY * (1 - byY)];
  setView(left, left + width * byX, top, top + height * byY);
}

// Moves by fractions of the view.
function move(byX, byY) {
  const { x0, x1, y0, y1 } = state.view;
  const [dx, dy] = [(x1 - x0) * byX, (y1 - y0) * byY];
  setView(x0 + dx, x1 + dx, y0 + dy, y1 + dy);
}

// Moves a tensor into view in all plans, and zooms in if it is too small.
function reveal(id) {
  const { frame, painters, view } = state;
  const spanOf = (painter) => painter.plan.spanOf(idIn(painter.graph, id));
  const places = painters.filter((painter) => painter.size && spanOf(painter) >= 0).map((painter) => {
    const { plan } = painter;
    const span = spanOf(painter);
    frame.fit(...painter.size);
    const map = frame.mapAt.get(`${plan.buffer[span]} ${plan.chunk[span]}`);
    const part = (bytes) => map.bottom - (bytes / (map.bytes || 1)) * (map.bottom - map.top);
    const [low, high] = [plan.below[span], plan.below[span] + plan.size_[span]];
    return [plan.start[span], plan.end[span], part(high), part(low)];
  });
  if (!places.length) return;
  const of = (choice, at) => choice(...places.map((place) => place[at]));
  const [start, end, top, bottom] = [of(Math.min, 0), of(Math.max, 1), of(Math.min, 2), of(Math.max, 3)];
  const isSeen = start >= view.x0 && end <= view.x1 && top >= view.y0 - 1e-9 && bottom <= view.y1 + 1e-9;
  const isLarge = (end - start) / (view.x1 - view.x0) > MIN_SHARE && (bottom - top) / (view.y1 - view.y0) > MIN_SHARE;
  if (isSeen && isLarge) return;
  // Never zooms out, and zooms in no more than needed.
  const wide = (size, seen) => Math.max(size, Math.min(seen, size * CONTEXT)) * 1.3;
  const width = Math.min(wide(end - start, view.x1 - view.x0), frame.steps);
  const height = Math.min(wide(bottom - top, view.y1 - view.y0), 1);
  const [middleX, middleY] = [(start + end) / 2, (top + bottom) / 2];
  setView(middleX - width / 2, middleX + width / 2, middleY - height / 2, middleY + height / 2);
}

function choose(id) {
  state.chosen = id;
  showDetails(id);
  if (id >= 0) {
    reveal(id);
    announce(summary(state.graph, id));
  }
  repaint();
}

function announce(text) {
  element("announcer").textContent = text;
}

