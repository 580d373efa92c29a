// Draws one plan on its canvas: only what the view shows.

const MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
// Letter sizes, the preferred one first, and the width of a letter relative to its size.
const LETTERS = [10.5, 8.5];
const LETTER = 0.605;
// Names are not cut to fewer letters.
const MIN_LETTERS = 7;
// Narrower rectangles have no in-place mark beside their name.
const MIN_NOTCH = 40;
// Narrower rectangles are drawn over the line of the peak, which would hide them.
const MIN_WIDTH = 6;
const SANS = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

class Painter {
  constructor(canvas, plan, frame) {
    Object.assign(this, { canvas, plan, frame, context: canvas.getContext("2d") });
    // By rectangle, since each frame needs it for all.
    this.mapOf = Array.from({ length: plan.count }, (_, span) => frame.mapAt.get(`${plan.buffer[span]} ${plan.chunk[span]}`));
  }

  resize() {
    const { clientWidth, clientHeight } = this.canvas;
    const dots = devicePixelRatio || 1;
    this.canvas.width = Math.round(clientWidth * dots);
    this.canvas.height = Math.round(clientHeight * dots);
    this.size = [clientWidth, clientHeight];
    this.dots = dots;
  }

  paint(view, marks) {
    const { context, frame } = this;
    if (!this.size || !this.size[0]) return;
    frame.fit(...this.size);
    context.setTransform(this.dots, 0, 0, this.dots, 0, 0);
    context.clearRect(0, 0, ...this.size);
    context.lineWidth = 1;
    this.clipped(frame.left, frame.top, frame.width, frame.height, () => this.maps(view, marks));
    for (const map of frame.maps) this.peakMark(view, map);
    this.byteAxes(view);
    frame.buffers.forEach((buffer, index) => this.curve(view, buffer, frame.curveTops[index], marks));
    this.stepAxis(view);
  }

  clipped(x, y, width, height, paint) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    paint();
    this.context.restore();
  }

  maps(view, marks) {
    for (const map of this.frame.maps) this.ground(view, map);
    this.spans(view, marks);
    for (const map of this.frame.maps) this.peakLine(view, map, marks);
    this.links(view, marks);
  }

  // The background of a map: grid, bytes saved, and the steps of the peak.
  ground(view, map) {
    const { context, frame, plan } = this;
    const top = frame.screen(view, map.top), bottom = frame.screen(view, map.bottom);
    this.fill(COLOURS.field, frame.left, top, frame.width, bottom - top);
    context.strokeStyle = COLOURS.line;
    for (const [mark] of this.ticks(view, map)) this.line(frame.left, frame.y(view, map, mark), frame.left + frame.width);
    const buffer = plan.buffers.find((other) => other.id === map.buffer);
    const size = buffer ? buffer.chunks[map.chunk] || 0 : 0;
    const end = frame.y(view, map, size);
    if (buffer) {
      context.globalAlpha = 0.14;
      for (const [from, to] of buffer.peaks) {
        const x = frame.x(view, from);
        this.fill(COLOURS.peak, x, end, Math.max(frame.x(view, to) - x, 1), bottom - end);
      }
    }
    if (size < map.bytes) this.saving(map, size, top, end);
    context.globalAlpha = 1;
    context.strokeStyle = COLOURS.less;
    this.line(frame.left, end, frame.left + frame.width);
  }

  saving(map, size, top, end) {
    const { context, frame } = this;
    context.globalAlpha = 0.12;
    this.fill(COLOURS.less, frame.left, top, frame.width, end - top);
    context.globalAlpha = 1;
    if (end - top < 26) return;
    context.fillStyle = COLOURS.less;
    context.font = `600 18px ${SANS.slice(5)}`;
    context.textAlign = "center";
    context.fillText(`${formatBytes(map.bytes - size)} less`, frame.left + frame.width / 2, (Math.max(top, 0) + end) / 2 + 6);
  }

  ticks(view, map) {
    const { frame } = this;
    const from = Math.max(frame.offset(view, map, frame.top + frame.height), 0);
    const to = Math.min(frame.offset(view, map, frame.top), map.bytes);
    const pixels = frame.y(view, map, from) - frame.y(view, map, to);
    return to >= from && pixels > 8 ? byteTicks(from, to, pixels / 48) : [];
  }

  // The position of a rectangle on the canvas; null outside the view.
  place(view, span, until) {
    const { frame, plan } = this;
    const start = plan.start[span];
    if (plan.end[span] <= view.x0 || start >= view.x1) return null;
    const map = this.mapOf[span];
    const bottom = frame.y(view, map, plan.offset[span]);
    if (bottom < frame.top) return null;
    const top = frame.y(view, map, plan.offset[span] + plan.size_[span]);
    if (top > frame.top + frame.height) return null;
    const left = frame.x(view, start);
    return { left, top, width: frame.x(view, until) - left, height: bottom - top };
  }

  spans(view, marks) {
    const { plan, frame, context } = this;
    const kinds = frame.graph.tensors.kind;
    const [labels, seams] = [[], []];
    for (let span = 0; span < plan.count; span += 1) {
      const place = this.place(view, span, plan.end[span]);
      if (!place) continue;
      const tensor = plan.tensor[span];
      const sharing = plan.sharing[span];
      context.globalAlpha = marks.isBright(tensor) ? 1 : 0.22;
      this.rectangle(place, sharing === SHARING.KEPT ? this.stripes("kept", COLOURS.note) : KINDS[kinds[tensor]].colour);
      if (sharing === SHARING.INSIDE) this.rectangle(place, this.stripes("inside", "#ffffffb0"));
      if (plan.isRetained(frame.graph, span)) this.rectangle(place, this.pattern("retained", "#ffffffc0", dots));
      if (sharing === SHARING.IN_PLACE && place.width >= 4 && place.height >= 4) seams.push(place);
      if (sharing !== SHARING.KEPT && place.width > 22 && place.height > 8) labels.push(span);
    }
    context.globalAlpha = marks.isPlain ? 1 : 0.4;
    this.inPlaceMarks(seams);
    context.textAlign = "center";
    for (const span of labels) this.label(view, span, marks);
    context.globalAlpha = 1;
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

  // Leaves a gap to its neighbours if there is space.
  rectangle({ left, top, width, height }, colour) {
    const [gapX, gapY] = [width > 4 ? 0.7 : 0, height > 4 ? 0.7 : 0];
    this.fill(colour, left, top, Math.max(width - gapX, 0.8), Math.max(height - gapY, 0.6));
  }

  // Marks the left edges of tensors computed in place, in one path.
  inPlaceMarks(places) {
    const { context } = this;
    context.strokeStyle = context.fillStyle = "#ffffff";
    context.setLineDash([2, 2]);
    context.beginPath();
    for (const { left, top, height } of places) {
      context.moveTo(left, top);
      context.lineTo(left, top + height);
    }
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    for (const { left, top, width, height } of places) {
      if (width < MIN_NOTCH || height < 12) continue;
      const middle = top + height / 2;
      context.moveTo(left, middle - 5);
      context.lineTo(left + 5, middle);
      context.lineTo(left, middle + 5);
    }
    context.fill();
  }

  label(view, span, marks) {
    const { plan, frame, context } = this;
    const place = this.place(view, span, plan.visibleUntil[span]);
    if (!place) return;
    const left = Math.max(place.left, frame.left), right = Math.min(place.left + place.width, frame.left + frame.width);
    const top = Math.max(place.top, frame.top), bottom = Math.min(place.top + place.height, frame.top + frame.height);
    const tensor = plan.tensor[span];
    const name = frame.graph.name(tensor), full = `${name} ${formatBytes(plan.size_[span])}`;
    const mark = plan.sharing[span] === SHARING.IN_PLACE && place.width >= MIN_NOTCH && place.left >= frame.left ? 5 : 0;
    const best = bestLabel(name, full, right - left - mark, bottom - top);
    if (!best) return;
    context.globalAlpha = marks.isBright(tensor) ? 1 : 0.35;
    context.fillStyle = KINDS[frame.graph.kind(tensor)].ink;
    context.font = `${best.size}px ${MONO}`;
    context.save();
    context.translate((left + mark + right) / 2, (top + bottom) / 2);
    if (best.upwards) context.rotate(-Math.PI / 2);
    context.fillText(best.text, 0, best.size * 0.35);
    context.restore();
  }

  // Outlines the selected tensor, its sources and uses, the tensors found, and the one under the pointer.
  links(view, marks) {
    for (const id of marks.found) this.outline(view, id, COLOURS.mark, 2, []);
    const chosen = this.plan.spanOf(marks.chosen);
    for (const [ids, dash] of [[marks.sources, []], [marks.readers, [5, 3]]]) {
      for (const id of ids) {
        this.outline(view, id, COLOURS.text, 1.5, dash);
        if (chosen >= 0) this.arrow(view, dash.length ? chosen : this.plan.spanOf(id), dash.length ? this.plan.spanOf(id) : chosen, dash);
      }
    }
    this.outline(view, marks.chosen, COLOURS.accent, 3, []);
    this.outline(view, marks.pointed, COLOURS.text, 2, []);
  }

  outline(view, tensor, colour, width, dash) {
    for (const span of this.plan.spansOf.get(tensor) || []) {
      const place = this.place(view, span, this.plan.visibleUntil[span]);
      if (!place) continue;
      const { context } = this;
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.setLineDash(dash);
      context.strokeRect(place.left, place.top, Math.max(place.width, 1.5), Math.max(place.height, 1.5));
      context.setLineDash([]);
      context.lineWidth = 1;
    }
  }

  // From the end of one rectangle to the start of another.
  arrow(view, from, to, dash) {
    if (from < 0 || to < 0 || from === to) return;
    const { context, plan, frame } = this;
    const y = (span) => frame.y(view, this.mapOf[span], plan.offset[span] + plan.size_[span] / 2);
    const start = Math.min(frame.x(view, plan.visibleUntil[from]), frame.x(view, plan.start[to]));
    const [x0, y0, x1, y1] = [start, y(from), frame.x(view, plan.start[to]), y(to)];
    const bend = Math.max(Math.min(Math.abs(x1 - x0) / 2, 60), 14);
    context.strokeStyle = context.fillStyle = COLOURS.text;
    context.lineWidth = 1.4;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 7, y1 - 4);
    context.lineTo(x1 - 7, y1 + 4);
    context.fill();
    context.lineWidth = 1;
  }

  peakLine(view, map, marks) {
    const { frame, plan } = this;
    const buffer = plan.buffers.find((other) => other.id === map.buffer);
    if (!buffer || !buffer.peaks.length) return;
    const x = frame.x(view, buffer.peaks[0][0] + 0.5);
    const top = frame.y(view, map, buffer.chunks[map.chunk] || 0);
    this.dashed(x, top, frame.screen(view, map.bottom));
    for (const span of plan.atPeak.get(buffer.id)) {
      if (plan.chunk[span] !== map.chunk) continue;
      const place = this.place(view, span, plan.visibleUntil[span]);
      const tensor = plan.tensor[span];
      if (place && place.width < MIN_WIDTH && marks.isBright(tensor)) this.rectangle(place, KINDS[frame.graph.kind(tensor)].colour);
    }
  }

  // Marks the first peak at the top of the buffer.
  peakMark(view, map) {
    const { context, frame, plan } = this;
    const buffer = plan.buffers.find((other) => other.id === map.buffer);
    if (!buffer || !buffer.peaks.length || !buffer.chunks[map.chunk]) return;
    const [x, y] = [frame.x(view, buffer.peaks[0][0] + 0.5), frame.y(view, map, buffer.chunks[map.chunk] || 0)];
    const isSeen = x >= frame.left && x <= frame.left + frame.width && y > frame.top - 1 && y < frame.top + frame.height;
    if (!isSeen) return;
    context.fillStyle = COLOURS.peak;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - 5, y - 8);
    context.lineTo(x + 5, y - 8);
    context.fill();
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

  byteAxes(view) {
    const { context, frame } = this;
    context.font = SANS;
    for (const map of frame.maps) {
      context.textAlign = "right";
      context.fillStyle = COLOURS.note;
      for (const [mark, text] of this.ticks(view, map)) {
        const y = frame.y(view, map, mark);
        if (y >= frame.top && y <= frame.top + frame.height + 1) context.fillText(text, frame.left - 6, Math.max(y + 3.5, 10));
      }
      const top = frame.screen(view, map.top);
      if (frame.hasSeveralMaps && top > frame.top + 8 && top < frame.top + frame.height) {
        context.textAlign = "left";
        context.fillText(frame.name(map), frame.left, top - 11);
      }
    }
  }

  curve(view, id, top, marks) {
    const { context, frame, plan } = this;
    const buffer = plan.buffers.find((other) => other.id === id);
    this.fill(COLOURS.field, frame.left, top, frame.width, CURVE);
    if (!buffer) return;
    const most = frame.bufferSize(id) || 1;
    const y = (bytes) => top + CURVE - (bytes / most) * CURVE;
    context.font = SANS;
    context.textAlign = "right";
    context.fillStyle = COLOURS.note;
    context.strokeStyle = COLOURS.line;
    for (const [mark, text] of byteTicks(0, most, 3)) {
      this.line(frame.left, y(mark), frame.left + frame.width);
      context.fillText(text, frame.left - 6, y(mark) + 3.5);
    }
    this.clipped(frame.left, top - REMARK, frame.width, CURVE + REMARK, () => {
      this.live(view, buffer, y);
      this.bound(buffer, y);
      if (marks.step >= 0) this.fill(COLOURS.text, frame.x(view, marks.step + 0.5) - 0.5, top, 1, CURVE);
      this.peak(view, buffer, top, y);
    });
    this.remark(view, buffer, top);
  }

  // Draws one bar per pixel: the largest of the steps in it.
  live(view, buffer, y) {
    const { context, frame } = this;
    const perPixel = (view.x1 - view.x0) / frame.width;
    context.fillStyle = COLOURS.live;
    if (perPixel > 1) {
      for (let x = 0; x < frame.width; x += 1) {
        const from = Math.max(Math.floor(view.x0 + x * perPixel), 0);
        const to = Math.min(Math.ceil(view.x0 + (x + 1) * perPixel), buffer.live.length);
        let most = 0;
        for (let step = from; step < to; step += 1) most = Math.max(most, buffer.live[step]);
        context.fillRect(frame.left + x, y(most), 1, y(0) - y(most));
      }
      return;
    }
    const last = Math.min(Math.ceil(view.x1), buffer.live.length);
    for (let step = Math.max(Math.floor(view.x0), 0); step < last; step += 1) {
      const x = frame.x(view, step), top = y(buffer.live[step]);
      context.fillRect(x, top, frame.x(view, step + 1) - x + 0.5, y(0) - top);
    }
  }

  bound(buffer, y) {
    const { context, frame } = this;
    context.strokeStyle = COLOURS.less;
    context.lineWidth = 1.5;
    this.line(frame.left, y(buffer.size), frame.left + frame.width);
    context.strokeStyle = COLOURS.text;
    context.setLineDash([6, 4]);
    this.line(frame.left, y(buffer.bound), frame.left + frame.width);
    context.setLineDash([]);
    context.lineWidth = 1;
  }

  peak(view, buffer, top, y) {
    if (!buffer.peaks.length) return;
    const { context, frame } = this;
    const x = frame.x(view, buffer.peaks[0][0] + 0.5);
    this.dashed(x, top - 6, top + CURVE);
    context.fillStyle = COLOURS.peak;
    context.beginPath();
    context.arc(x, y(buffer.bound), 4, 0, 7);
    context.fill();
  }

  remark(view, buffer, top) {
    if (!buffer.peaks.length) return;
    const { context, frame } = this;
    const again = buffer.peaks.length - 1;
    const name = frame.buffers.length > 1 ? `${buffer.name}, ` : "";
    const text = `${name}peak: ${formatBytes(buffer.bound)} live at step ${buffer.peaks[0][0]}${again > 1 ? `, and ${again} more times` : again ? ", and once more" : ""}`;
    context.font = `600 12px ${SANS.slice(5)}`;
    context.fillStyle = COLOURS.peak;
    context.textAlign = "left";
    const width = context.measureText(text).width;
    const x = frame.x(view, buffer.peaks[0][0] + 0.5) - width / 2;
    context.fillText(text, Math.max(Math.min(x, frame.left + frame.width - width), frame.left), top - 9);
  }

  stepAxis(view) {
    const { context, frame } = this;
    context.font = SANS;
    context.fillStyle = COLOURS.note;
    context.textAlign = "center";
    const apart = Math.max(roundStep(view.x1 - view.x0, frame.width / 70), 1);
    for (let step = Math.ceil(view.x0 / apart) * apart; step <= view.x1; step += apart) {
      const x = frame.x(view, step);
      this.fill(COLOURS.line, x - 0.5, frame.bottom, 1, 4);
      context.fillStyle = COLOURS.note;
      context.fillText(String(step), x, frame.bottom + 15);
    }
    context.fillText("step", frame.left + frame.width / 2, frame.bottom + 29);
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
}

// The label with most of the name: along time or upwards, in larger or smaller letters.
function bestLabel(name, full, width, height) {
  let best = null;
  for (const upwards of [false, true]) {
    for (const size of LETTERS) {
      const [along, across] = upwards ? [height, width] : [width, height];
      const text = across >= size + 2 ? fitted(name, full, Math.floor((along - 2) / (LETTER * size))) : "";
      const shown = text.startsWith(name) ? Infinity : text.length;
      if (text && (!best || shown > best.shown)) best = { text, size, upwards, shown };
    }
  }
  return best;
}

// As much of a name as fits into `letters`, with the bytes if there is space.
function fitted(name, full, letters) {
  if (full.length <= letters) return full;
  if (name.length <= letters) return name;
  return letters < MIN_LETTERS ? "" : `${name.slice(0, letters - 1)}…`;
}

