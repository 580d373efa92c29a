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
  },
});

