// Paints the axes of bytes and steps, and the blocks on the time axis.

// Blocks that are narrower have no line between them, and no text.
const MIN_BLOCK = 14;

Object.assign(Painter.prototype, {
  ticks(view, map) {
    const { frame } = this;
    const from = Math.max(frame.offset(view, map, frame.top + frame.height), 0);
    const to = Math.min(frame.offset(view, map, frame.top), map.bytes);
    const pixels = frame.y(view, map, from) - frame.y(view, map, to);
    return to >= from && pixels > 8 ? byteTicks(from, to, pixels / 48) : [];
  },

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
        context.fillText(shortened(frame.name(map), Math.floor(frame.width / 7)), frame.left, top - 11);
      }
    }
  },

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
  },

  // The blocks in the view, with their places.
  bandsIn(view) {
    const { frame } = this;
    const end = frame.left + frame.width;
    const seen = this.graph.bands.filter((band) => band.start < view.x1 && band.end > view.x0);
    return seen.map((band) => {
      const [left, right] = [Math.max(frame.x(view, band.start), frame.left), Math.min(frame.x(view, band.end), end)];
      return { band, left, width: right - left };
    });
  },

  // Lines between blocks across a map.
  seams(view, top, bottom) {
    const { frame } = this;
    for (const { band, left, width } of this.bandsIn(view)) {
      if (width >= MIN_BLOCK && left > frame.left) this.fill(COLOURS.line, Math.round(frame.x(view, band.start)) - 0.5, top, 1, bottom - top);
    }
  },

  // The blocks below the steps, each other one darker.
  strip(view) {
    const { context, frame, graph } = this;
    if (!graph.bands.length) return;
    const [top, high] = [frame.bottom + frame.axis - STRIP + 2, STRIP - 4];
    context.font = `10px ${SANS.slice(5)}`;
    for (const { band, left, width } of this.bandsIn(view)) {
      this.fill(graph.bands.indexOf(band) % 2 ? COLOURS.line : COLOURS.field, left, top, width, high);
      const text = [band.name, band.name.split(".").pop()].find((text) => text.length * 6.2 + 4 <= width);
      if (!text || width < MIN_BLOCK) continue;
      context.fillStyle = COLOURS.note;
      context.textAlign = "center";
      context.fillText(text, left + width / 2, top + high - 3.5);
    }
    context.textAlign = "right";
    context.fillStyle = COLOURS.note;
    context.fillText(graph.bands.every((band) => /^\d+$/.test(band.name)) ? "layer" : "block", frame.left - 6, top + high - 3.5);
  },
});

