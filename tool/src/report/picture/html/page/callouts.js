// Call-outs: the names of the largest tensors above the maps, however thin their rectangles are.

// How many there are at most, and what share of its buffer a tensor has at least.
const MOST_CALL_OUTS = 4, MIN_CALL_OUT = 0.03;
const CALL_OUT_LETTERS = 34, MIN_CALL_OUT_LETTERS = 12;

Object.assign(Painter.prototype, {
  // The largest tensors in the view that do not have their whole name inside; one for each block of memory.
  unnamed(view) {
    const { plan, frame } = this;
    const found = [], blocks = new Set();
    for (const span of plan.bySize) {
      if (found.length === MOST_CALL_OUTS || plan.size_[span] < MIN_CALL_OUT * frame.bufferSize(plan.buffer[span])) break;
      const block = `${plan.buffer[span]} ${plan.block[span]}`;
      if (this.named.has(span) || blocks.has(block)) continue;
      const place = this.place(view, span, plan.visibleUntil[span]);
      if (!place || place.left + place.width < frame.left || place.left > frame.left + frame.width) continue;
      blocks.add(block);
      found.push({ span, place });
    }
    return found;
  },

  callOuts(view, marks) {
    const { context, plan, frame } = this;
    // By row, the places that are taken.
    const rows = Array.from({ length: ROWS }, () => []);
    this.calledOut = [];
    if (!state.callsOut) return;
    context.font = SANS;
    for (const { span, place } of this.unnamed(view)) {
      const end = Math.min(place.left + place.width, frame.left + frame.width);
      const middle = (Math.max(place.left, frame.left) + end) / 2;
      const box = this.roomFor(span, middle, rows);
      if (!box) continue;
      rows[box.row].push(box);
      this.calledOut.push({ span, place, middle, ...box });
    }
    // Texts after all lines, which would cross them.
    for (const paint of [this.leader, this.callOut]) {
      for (const one of this.calledOut) {
        context.globalAlpha = marks.isBright(plan.tensor[one.span]) ? 1 : 0.35;
        paint.call(this, one);
      }
    }
    context.globalAlpha = 1;
  },

  // A place for the text of a call-out, in the lowest row that has one; shorter where a row is full.
  roomFor(span, middle, rows) {
    const { context, plan, graph, frame } = this;
    const tensor = plan.tensor[span];
    // A number for a name says less than the operation.
    const about = `${isNamed(graph, tensor) ? "" : ` ${graph.op(tensor)}`}  ${formatBytes(plan.size_[span])}`;
    for (const letters of [CALL_OUT_LETTERS, MIN_CALL_OUT_LETTERS]) {
      const text = shortened(graph.name(tensor), letters) + about;
      const width = context.measureText(text).width + 14;
      if (width > frame.width) continue;
      for (let row = ROWS - 1; row >= 0; row -= 1) {
        const wanted = Math.min(Math.max(middle - width / 2, frame.left), frame.left + frame.width - width);
        const isFree = rows[row].every((other) => wanted > other.left + other.width + 3 || wanted + width + 3 < other.left);
        if (isFree) return { text, row, left: wanted, width, top: 4 + row * ROW, height: ROW - 2 };
      }
    }
    return null;
  },

  // The line from a call-out to its rectangle, which is painted over its neighbours, two pixels wide at least.
  leader({ span, place, middle, ...box }) {
    const { context, plan, graph, frame } = this;
    const top = Math.max(place.top, frame.top), bottom = Math.min(place.top + place.height, frame.top + frame.height);
    if (place.width < MIN_WIDTH && bottom > top) {
      const wide = Math.max(place.width, 2);
      this.rectangle({ left: place.left, top, width: wide, height: bottom - top }, KINDS[graph.kind(plan.tensor[span])].colour);
    }
    context.strokeStyle = COLOURS.text;
    context.setLineDash([1, 2]);
    context.beginPath();
    context.moveTo(middle, box.top + box.height);
    context.lineTo(middle, Math.max(top, box.top + box.height));
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = COLOURS.text;
    context.beginPath();
    context.arc(middle, top, 2.5, 0, 7);
    context.fill();
  },

  callOut({ span, text, left, top, width, height }) {
    const { context, plan, graph } = this;
    // Also over lines that are behind a dimmed one.
    const { globalAlpha } = context;
    context.globalAlpha = 1;
    this.fill(COLOURS.raised, left, top, width, height);
    context.globalAlpha = globalAlpha;
    context.strokeStyle = COLOURS.line;
    context.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
    this.fill(KINDS[graph.kind(plan.tensor[span])].colour, left, top, 5, height);
    context.fillStyle = COLOURS.text;
    context.textAlign = "left";
    context.fillText(text, left + 9, top + height - 3);
  },

  // The rectangle whose call-out is at a point.
  calledOutAt(x, y) {
    const isThere = (box) => x >= box.left && x <= box.left + box.width && y >= box.top && y <= box.top + box.height;
    return (this.calledOut || []).find(isThere)?.span ?? -1;
  },
});

