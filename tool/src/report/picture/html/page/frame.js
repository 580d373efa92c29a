// The layout. A view shows steps x0..x1 and the fraction y0..y1 of all maps, where 0 is the top and 1 the bottom.

const AXIS = 66, RIGHT = 16, CURVE = 74, REMARK = 24, STEPS = 34, NAME = 28, GAP = 6;
const MIN_MAP_SHARE = 0.08, MIN_MAP = 100;
// Rows for call-outs above the maps, and the strip of blocks below the steps.
const ROWS = 3, ROW = 15, TOP = ROWS * ROW + 10, STRIP = 18;

// The maps of all chunks, one below the other, each as high as its largest size in any plan.
class Frame {
  constructor(plans) {
    this.plans = plans;
    this.steps = Math.max(...plans.map((plan) => plan.graph.steps), 1);
    this.buffers = [...new Set(plans.flatMap((plan) => plan.buffers.map((buffer) => buffer.id)))].sort((a, b) => a - b);
    this.maps = this.buffers.flatMap((buffer) => this.chunks(buffer).map((bytes, chunk) => ({ buffer, chunk, bytes })));
    this.hasSeveralMaps = this.maps.length > 1;
    const total = this.maps.reduce((sum, map) => sum + map.bytes, 0) || 1;
    for (const map of this.maps) map.share = Math.max(map.bytes / total, MIN_MAP_SHARE);
    this.shares = this.maps.reduce((sum, map) => sum + map.share, 0) || 1;
    this.mapAt = new Map(this.maps.map((map) => [`${map.buffer} ${map.chunk}`, map]));
    // The time axes of all plans have a strip if one has blocks.
    this.axis = STEPS + (plans.some((plan) => plan.graph.bands.length) ? STRIP : 0);
  }

  // The least height of a canvas.
  leastHeight() {
    return TOP + this.axis + this.maps.length * MIN_MAP + this.buffers.length * (CURVE + REMARK);
  }

  plansOf(buffer) {
    return this.plans.flatMap((plan) => plan.buffers.filter((other) => other.id === buffer));
  }

  bufferSize(buffer) {
    return Math.max(...this.plansOf(buffer).map((other) => other.size));
  }

  chunks(buffer) {
    const largest = [];
    for (const { chunks } of this.plansOf(buffer)) {
      chunks.forEach((bytes, index) => { largest[index] = Math.max(largest[index] || 0, bytes); });
    }
    return largest;
  }

  name(map) {
    const { name } = this.plansOf(map.buffer)[0];
    return this.chunks(map.buffer).length > 1 ? `${name}, chunk ${map.chunk + 1}` : name;
  }

  // Lays everything out for a canvas of this size.
  fit(width, height) {
    this.left = AXIS;
    this.width = Math.max(width - AXIS - RIGHT, 10);
    this.top = TOP;
    this.height = Math.max(height - TOP - this.axis - this.buffers.length * (CURVE + REMARK), 60);
    const named = this.hasSeveralMaps ? NAME / this.height : 0;
    const gap = this.hasSeveralMaps ? GAP / this.height : 0;
    const room = 1 - this.maps.length * named - Math.max(this.maps.length - 1, 0) * gap;
    let at = 0;
    for (const map of this.maps) {
      map.top = at + named;
      map.bottom = map.top + (map.share / this.shares) * Math.max(room, 0.1);
      at = map.bottom + gap;
    }
    this.curveTops = this.buffers.map((_, index) => this.top + this.height + REMARK + index * (CURVE + REMARK));
    this.bottom = this.curveTops.length ? this.curveTops[this.curveTops.length - 1] + CURVE : this.top + this.height;
  }

  x(view, step) { return this.left + ((step - view.x0) / (view.x1 - view.x0)) * this.width; }
  step(view, x) { return view.x0 + ((x - this.left) / this.width) * (view.x1 - view.x0); }
  screen(view, part) { return this.top + ((part - view.y0) / (view.y1 - view.y0)) * this.height; }
  part(view, y) { return view.y0 + ((y - this.top) / this.height) * (view.y1 - view.y0); }

  // The position of a number of bytes above the bottom of a map.
  y(view, map, bytes) {
    return this.screen(view, map.bottom - (bytes / (map.bytes || 1)) * (map.bottom - map.top));
  }

  // The other way round.
  bytesAt(view, map, y) {
    return ((map.bottom - this.part(view, y)) / (map.bottom - map.top)) * map.bytes;
  }
}
