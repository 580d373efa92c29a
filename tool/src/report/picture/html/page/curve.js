// Paints the axes of bytes and steps, and the blocks on the time axis.

// Blocks that are narrower have no line between them, and no text.
const MIN_BLOCK = 14;

Object.assign(Painter.prototype, {
  ticks(view, map) {
    const { frame } = this;
    const from = Math.max(frame.bytesAt(view, map, frame.top + frame.height), 0);
    const to = Math.min(frame.bytesAt(view, map, frame.top), map.bytes);
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
    context.fillText(bandWord(graph), frame.left - 6, top + high - 3.5);
  },
});

// Paints the memory profile of a buffer, with its lower bound, its size and its peak.

Object.assign(Painter.prototype, {
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
      if (state.pin >= 0 && this.graph === state.graph) this.fill(COLOURS.accent, frame.x(view, state.pin + 0.5) - 1, top, 2, CURVE);
      this.peak(view, buffer, top, y);
    });
    this.remark(view, buffer, top);
  },

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
  },

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
  },

  peak(view, buffer, top, y) {
    if (!buffer.peaks.length) return;
    const { context, frame } = this;
    const x = frame.x(view, buffer.peaks[0][0] + 0.5);
    this.dashed(x, top - 6, top + CURVE);
    context.fillStyle = COLOURS.peak;
    context.beginPath();
    context.arc(x, y(buffer.bound), 4, 0, 7);
    context.fill();
  },

  remark(view, buffer, top) {
    if (!buffer.peaks.length) return;
    const { context, frame } = this;
    const again = buffer.peaks.length - 1;
    const name = frame.buffers.length > 1 ? `${shortened(buffer.name, 24)}, ` : "";
    const peak = `${name}peak: ${formatBytes(buffer.bound)} live at step ${buffer.peaks[0][0]}`;
    const more = again > 1 ? `, and ${again} more times` : again ? ", and once more" : "";
    context.font = `600 12px ${SANS.slice(5)}`;
    context.fillStyle = COLOURS.peak;
    context.textAlign = "left";
    const text = context.measureText(peak + more).width <= frame.width ? peak + more : peak;
    const width = context.measureText(text).width;
    const x = frame.x(view, buffer.peaks[0][0] + 0.5) - width / 2;
    context.fillText(text, Math.max(Math.min(x, frame.left + frame.width - width), frame.left), top - 9);
  },
});
