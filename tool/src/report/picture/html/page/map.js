// Paints the maps: the background, the rectangles, their names, and the lines of the peak.

Object.assign(Painter.prototype, {
  maps(view, marks) {
    for (const map of this.frame.maps) this.ground(view, map);
    this.spans(view, marks);
    for (const map of this.frame.maps) this.peakLine(view, map, marks);
    this.pinLine(view);
    this.links(view, marks);
  },

  // The background of a map: grid, bytes saved, and the steps of the peak.
  ground(view, map) {
    const { context, frame } = this;
    const top = frame.screen(view, map.top), bottom = frame.screen(view, map.bottom);
    this.fill(COLOURS.field, frame.left, top, frame.width, bottom - top);
    context.strokeStyle = COLOURS.line;
    for (const [mark] of this.ticks(view, map)) this.line(frame.left, frame.y(view, map, mark), frame.left + frame.width);
    this.seams(view, top, bottom);
    const buffer = this.bufferOf(map);
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
  },

  saving(map, size, top, end) {
    const { context, frame } = this;
    context.globalAlpha = 0.12;
    this.fill(COLOURS.less, frame.left, top, frame.width, end - top);
    context.globalAlpha = 1;
    if (end - top < 26) return;
    context.fillStyle = COLOURS.less;
    context.font = `600 18px ${SANS.slice(5)}`;
    context.textAlign = "center";
    context.fillText(`${formatBytes(map.bytes - size)} less`, frame.left + frame.width / 2, (Math.max(top, frame.top) + end) / 2 + 6);
  },

  spans(view, marks) {
    const { plan, context } = this;
    const kinds = this.graph.tensors.kind;
    const [labels, inPlace] = [[], []];
    for (let span = 0; span < plan.count; span += 1) {
      const place = this.place(view, span, plan.end[span]);
      if (!place) continue;
      const tensor = plan.tensor[span];
      const sharing = plan.sharing[span];
      context.globalAlpha = marks.isBright(tensor) ? 1 : 0.22;
      this.rectangle(place, sharing === SHARING.KEPT ? this.stripes("kept", COLOURS.note) : KINDS[kinds[tensor]].colour);
      if (sharing === SHARING.INSIDE) this.rectangle(place, this.stripes("inside", "#ffffffb0"));
      if (plan.retained[span]) this.rectangle(place, this.pattern("retained", "#ffffffc0", dots));
      if (sharing === SHARING.IN_PLACE && place.width >= 4 && place.height >= 4) inPlace.push(place);
      if (sharing !== SHARING.KEPT && place.width > 22 && place.height > 8) labels.push(span);
    }
    context.globalAlpha = marks.isPlain ? 1 : 0.4;
    this.inPlaceMarks(inPlace);
    context.textAlign = "center";
    for (const span of labels) this.label(view, span, marks);
    context.globalAlpha = 1;
  },

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
  },

  label(view, span, marks) {
    const { plan, frame, graph, context } = this;
    const place = this.place(view, span, plan.visibleUntil[span]);
    if (!place) return;
    const left = Math.max(place.left, frame.left), right = Math.min(place.left + place.width, frame.left + frame.width);
    const top = Math.max(place.top, frame.top), bottom = Math.min(place.top + place.height, frame.top + frame.height);
    const tensor = plan.tensor[span];
    const name = graph.name(tensor), full = `${name} ${formatBytes(plan.size_[span])}`;
    const mark = plan.sharing[span] === SHARING.IN_PLACE && place.width >= MIN_NOTCH && place.left >= frame.left ? 5 : 0;
    const best = bestLabel(name, full, right - left - mark, bottom - top);
    if (!best) return;
    if (best.shown === Infinity) this.named.add(span);
    context.globalAlpha = marks.isBright(tensor) ? 1 : 0.35;
    context.fillStyle = KINDS[graph.kind(tensor)].ink;
    context.font = `${best.size}px ${MONO}`;
    context.save();
    context.translate((left + mark + right) / 2, (top + bottom) / 2);
    if (best.upwards) context.rotate(-Math.PI / 2);
    context.fillText(best.text, 0, best.size * 0.35);
    context.restore();
  },

  peakLine(view, map, marks) {
    const { frame, plan, graph } = this;
    const buffer = this.bufferOf(map);
    if (!buffer || !buffer.peaks.length) return;
    const x = frame.x(view, buffer.peaks[0][0] + 0.5);
    const top = frame.y(view, map, buffer.chunks[map.chunk] || 0);
    this.dashed(x, top, frame.screen(view, map.bottom));
    for (const span of plan.atPeak.get(buffer.id)) {
      if (plan.chunk[span] !== map.chunk) continue;
      const place = this.place(view, span, plan.visibleUntil[span]);
      const tensor = plan.tensor[span];
      if (place && place.width < MIN_WIDTH && marks.isBright(tensor)) this.rectangle(place, KINDS[graph.kind(tensor)].colour);
    }
  },

  // The step that was gone to by the buttons or keys of peaks.
  pinLine(view) {
    const { context, frame } = this;
    if (state.pin < 0 || this.graph !== state.graph) return;
    context.globalAlpha = 0.5;
    this.fill(COLOURS.accent, frame.x(view, state.pin + 0.5) - 1, frame.top, 2, frame.height);
    context.globalAlpha = 1;
  },

  // Marks the first peak at the top of the buffer.
  peakMark(view, map) {
    const { context, frame } = this;
    const buffer = this.bufferOf(map);
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
  },
});

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

// Outlines the selected tensor, its sources and uses, the tensors found, and the one under the pointer.

Object.assign(Painter.prototype, {
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
  },

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
  },

  // From the end of one rectangle to the start of another.
  arrow(view, from, to, dash) {
    if (from < 0 || to < 0 || from === to) return;
    const { context, plan, frame } = this;
    const y = (span) => frame.y(view, this.mapOf[span], plan.below[span] + plan.size_[span] / 2);
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
  },
});
