// Colours: those of operations are in the data, the others in the style sheet, for light and dark.

const KINDS = DATA.kinds.map(([name, colour, ink]) => ({ name, colour, ink }));
const NAMES = ["page", "field", "line", "text", "note", "less", "peak", "live", "accent", "mark", "raised"];
let COLOURS = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  COLOURS = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
}

// Stripes for reserved bytes, and for tensors inside a later result.
function stripes(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.4;
  pen.beginPath();
  for (const at of [-8, 0, 8]) {
    pen.moveTo(at - 1, 9);
    pen.lineTo(at + 9, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

// Dots for retained tensors.
function dots(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(4, 4, 1.4, 0, 2 * Math.PI);
  pen.fill();
  return context.createPattern(tile, "repeat");
}

// Draws one plan on a canvas, or with any other pen: only the visible part. The parts that follow add methods.

const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const SANS = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
// Letter sizes, the preferred one first, and the width of a letter relative to its size.
const LETTERS = [10.5, 8.5];
const LETTER = 0.605;
// Names are not cut to fewer letters.
const MIN_LETTERS = 7;
// Narrower rectangles have no in-place mark beside their name.
const MIN_NOTCH = 40;
// Narrower rectangles are drawn over the line of the peak, which would hide them.
const MIN_WIDTH = 6;
// Narrower and lower rectangles leave no gap to their neighbours: their colour takes all of it.
const MIN_GAP = 4;

class Painter {
  constructor(plan, frame, pen) {
    Object.assign(this, { plan, frame, graph: plan.graph, context: pen, canvas: pen.canvas, dots: 1, origin: [0, 0] });
    // By rectangle, since each frame needs it for all.
    this.mapOf = Array.from({ length: plan.count }, (_, span) => frame.mapAt.get(`${plan.buffer[span]} ${plan.chunk[span]}`));
  }

  // Fits the bitmap of the canvas to its place in the page, and the drawing to `size`, which may be less.
  resize(size) {
    const { canvas } = this;
    this.dots = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((pixels) => Math.round(pixels * this.dots));
    // Setting it empties the canvas.
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    this.size = size;
  }

  paint(view, marks) {
    const { context, frame, dots, origin } = this;
    if (!this.size || !this.size[0]) return;
    frame.fit(...this.size);
    context.setTransform(dots, 0, 0, dots, origin[0] * dots, origin[1] * dots);
    if (this.canvas) context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.lineWidth = 1;
    // Rectangles with their whole name inside.
    this.named = new Set();
    this.clipped(frame.left, frame.top, frame.width, frame.height, () => this.maps(view, marks));
    for (const map of frame.maps) this.peakMark(view, map);
    this.callOuts(view, marks);
    this.byteAxes(view);
    frame.buffers.forEach((buffer, index) => this.curve(view, buffer, frame.curveTops[index], marks));
    this.stepAxis(view);
    this.strip(view);
  }

  clipped(x, y, width, height, paint) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    paint();
    this.context.restore();
  }

  // The position of a rectangle on the canvas; null outside the view.
  place(view, span, until) {
    const { frame, plan } = this;
    const start = plan.start[span];
    if (plan.end[span] <= view.x0 || start >= view.x1) return null;
    const map = this.mapOf[span];
    const bottom = frame.y(view, map, plan.below[span]);
    if (bottom < frame.top) return null;
    const top = frame.y(view, map, plan.below[span] + plan.size_[span]);
    if (top > frame.top + frame.height) return null;
    const left = frame.x(view, start);
    return { left, top, width: frame.x(view, until) - left, height: bottom - top };
  }

  // The rectangle at a point; the last drawn is on top.
  spanAt(view, x, y) {
    const { frame, plan } = this;
    if (x < frame.left || x > frame.left + frame.width || y < frame.top || y > frame.top + frame.height) return -1;
    for (let span = plan.count - 1; span >= 0; span -= 1) {
      const place = this.place(view, span, plan.end[span]);
      if (!place || y < place.top - 0.5 || y > place.top + place.height + 0.5) continue;
      if (x >= place.left && x <= place.left + Math.max(place.width, 1)) return span;
    }
    return -1;
  }

  bufferOf(map) {
    return this.plan.buffers.find((buffer) => buffer.id === map.buffer);
  }

  // Paints whole pixels, at least one: blended edges would mix the colours of thin neighbours.
  rectangle({ left, top, width, height }, colour) {
    const { dots } = this;
    const [x, y] = [Math.round(left * dots) / dots, Math.round(top * dots) / dots];
    const wide = Math.max(Math.round((left + width) * dots) / dots - x, 1 / dots);
    const high = Math.max(Math.round((top + height) * dots) / dots - y, 1 / dots);
    this.fill(colour, x, y, wide > MIN_GAP ? wide - 1 / dots : wide, high > MIN_GAP ? high - 1 / dots : high);
  }

  fill(colour, x, y, width, height) {
    this.context.fillStyle = colour;
    this.context.fillRect(x, y, width, height);
  }

  line(from, y, to) {
    this.context.beginPath();
    this.context.moveTo(from, y);
    this.context.lineTo(to, y);
    this.context.stroke();
  }

  dashed(x, top, bottom) {
    const { context } = this;
    context.strokeStyle = COLOURS.peak;
    context.lineWidth = 1.5;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, bottom);
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
  }

  stripes(name, colour) {
    return this.pattern(name, colour, stripes);
  }

  // Makes a pattern once for each colour.
  pattern(name, colour, make) {
    this.patterns = this.patterns || {};
    const known = this.patterns[name];
    if (known && known.colour === colour) return known.pattern;
    const pattern = make(this.context, colour);
    this.patterns[name] = { colour, pattern };
    return pattern;
  }
}
